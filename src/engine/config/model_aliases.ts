/**
 * Aliases of models: a name for several, of which the first that can answers.
 *
 * An alias holds no colon, so that it is never `<provider>:<name>`, and is not near a provider's name, which it would hide
 * if it were misspelt.
 */
import { PerigeeError } from "../../errors.ts";
import { nearest } from "../../nearest.ts";
import { meantModel } from "../../work/model_owner.ts";
import { parseModelId } from "../../work/request.ts";
import { unknownProviderMessage } from "../../work/unknown_provider.ts";

/** Models, `<provider>:<name>`, in the order in which they are asked. */
export type AliasMembers = readonly [string, ...string[]];

/** What is configured. */
export interface ModelAliases {
  readonly members: ReadonlyMap<string, AliasMembers>;
  /** The first model of each, by which lines are read, counted and quoted; undefined without aliases. */
  readonly first: Readonly<Record<string, string>> | undefined;
}

const MEMBERS_MAX = 16;
const ALIASES_MAX = 1_000;
const ALIAS = /^[A-Za-z0-9][\w./@+-]{0,127}$/;

/** Throws `invalid_config` for an alias or a model that cannot be used. `providers` are those that are configured. */
export function modelAliases(
  models: Readonly<Record<string, readonly string[]>> = {},
  providers: ReadonlySet<string>,
): ModelAliases {
  const members = new Map<string, AliasMembers>();
  for (const [alias, list] of Object.entries(models)) members.set(alias, membersOf(alias, list, providers));
  if (members.size > ALIASES_MAX)
    throw new PerigeeError(
      "invalid_config",
      `models: ${members.size} aliases, at most ${ALIASES_MAX} are allowed`,
    );
  const first = Object.fromEntries([...members].map(([alias, [model]]) => [alias, model]));
  return { members, first: members.size === 0 ? undefined : first };
}

/** Which model of an alias a line of an output names that says who answered; `asked` if no other one of them does. */
export function answeringMember(
  { members }: ModelAliases,
  alias: string | undefined,
  asked: string,
  named: string | undefined,
): string {
  const all = alias === undefined ? undefined : members.get(alias);
  if (all === undefined || named === undefined) return asked;
  const provider = parseModelId(named)?.provider;
  const ofProvider = all.filter((member) => parseModelId(member)?.provider === provider);
  return (
    all.find((member) => member === named) ??
    ofProvider.find((member) => named.startsWith(member)) ??
    ofProvider[0] ??
    asked
  );
}

/** Whether a text may be an alias. */
export function isAlias(text: string): boolean {
  return ALIAS.test(text);
}

/** Throws `usage` for the model of a call that is neither `<provider>:<name>` nor an alias; `where` names the call. */
export function checkModelOption(model: string | undefined, { members }: ModelAliases, where: string): void {
  if (model === undefined || parseModelId(model) !== undefined || members.has(model)) return;
  const names = [...members.keys()];
  const known = names.length === 0 ? "" : " or an alias of the configuration";
  const near = nearest(model, names);
  const meant = near === undefined ? meantModel(model) : `; did you mean ${JSON.stringify(near)}?`;
  const found = JSON.stringify(model);
  throw new PerigeeError(
    "usage",
    `${where}: model must be "<provider>:<name>"${known}, got ${found}${meant}`,
  );
}

function membersOf(alias: string, list: readonly string[], providers: ReadonlySet<string>): AliasMembers {
  const place = `models[${JSON.stringify(alias)}]`;
  if (alias.includes(":"))
    throw refusal(place, `an alias must not contain ":", which is between a provider and its model`);
  if (!isAlias(alias))
    throw refusal(
      place,
      "an alias must be 1 to 128 letters, digits and . _ / @ + -, and begin with a letter or a digit",
    );
  const near = providers.has(alias) ? alias : nearest(alias, providers);
  if (near !== undefined)
    throw refusal(
      place,
      `an alias must not be like the name of a provider, which is "${near}"; choose another name`,
    );
  const [first, ...others] = list;
  if (first === undefined)
    throw refusal(place, 'the list is empty; expected at least one "<provider>:<model>"');
  if (list.length > MEMBERS_MAX)
    throw refusal(place, `${list.length} models, at most ${MEMBERS_MAX} are allowed`);
  for (const [index, model] of list.entries()) {
    const fault = faultOf(model, list.indexOf(model) < index, providers);
    if (fault !== undefined) throw refusal(`${place}[${index}]`, fault);
  }
  return [first, ...others];
}

function faultOf(model: string, isRepeated: boolean, providers: ReadonlySet<string>): string | undefined {
  const id = parseModelId(model);
  if (id === undefined) return `expected "<provider>:<model>", got ${JSON.stringify(model)}`;
  if (!providers.has(id.provider)) return unknownProviderMessage(id.provider, providers);
  return isRepeated ? `${JSON.stringify(model)} occurs twice; keep one of them` : undefined;
}

function refusal(place: string, message: string): PerigeeError {
  return new PerigeeError("invalid_config", `${place}: ${message}`);
}
