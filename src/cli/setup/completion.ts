/**
 * `perigee completion`: scripts for bash, zsh and fish, made of the commands as they are declared, so that they know each option.
 *
 * A script finds the command among the words before the cursor, then offers its commands and options, the values of an option that
 * has a list of them, and files otherwise. It calls no program.
 */
import { PerigeeError } from "../../errors.ts";

/** As much of commander's `Command` as is read. */
export interface DeclaredCommand {
  name(): string;
  description(): string;
  readonly commands: readonly DeclaredCommand[];
  readonly options: readonly DeclaredOption[];
}

interface DeclaredOption {
  readonly short?: string | undefined;
  readonly long?: string | undefined;
  readonly description: string;
  /** Whether it must have a value, and whether it may. */
  readonly required: boolean;
  readonly optional: boolean;
  readonly argChoices?: readonly string[] | undefined;
  readonly negate: boolean;
}

/** A command by its words after `perigee`; the root has none. */
interface Place {
  readonly path: string;
  readonly command: DeclaredCommand;
}

const HELP: DeclaredOption = {
  short: "-h",
  long: "--help",
  description: "show the options of the command",
  required: false,
  optional: false,
  negate: false,
};

/** Prints the script and returns the exit code. Throws `usage` for another shell. */
export function completion(shell: string, root: DeclaredCommand): number {
  process.stdout.write(completionScript(shell, root));
  return 0;
}

/** Throws `usage` for another shell than the three. */
export function completionScript(shell: string, root: DeclaredCommand): string {
  const places = placesOf(root, "");
  switch (shell) {
    case "bash":
      return bashScript(places);
    case "zsh":
      return zshScript(places);
    case "fish":
      return fishScript(places);
    default:
      throw new PerigeeError(
        "usage",
        `completion: the shell must be bash, zsh or fish, got ${JSON.stringify(shell)}`,
      );
  }
}

function placesOf(command: DeclaredCommand, path: string): Place[] {
  return [
    { path, command },
    ...command.commands.flatMap((each) =>
      placesOf(each, path === "" ? each.name() : `${path} ${each.name()}`),
    ),
  ];
}

function optionsOf({ command }: Place): readonly DeclaredOption[] {
  return [...command.options, HELP];
}

function flagsOf({ short, long }: DeclaredOption): string[] {
  return [short, long].filter((flag) => flag !== undefined);
}

const BASH_HEAD = `# Completion of perigee for bash. To use it in each new shell:
#   mkdir -p ~/.local/share/bash-completion/completions
#   perigee completion bash > ~/.local/share/bash-completion/completions/perigee
_perigee() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} path= word i names= flags= values=
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="\${path:+$path }\${COMP_WORDS[i]}"
    case "$word" in
`;

function bashScript(places: readonly Place[]): string {
  const paths = places.map(({ path }) => path).filter((path) => path !== "");
  const known = paths.map(quoted).join("|");
  const flags = places.map((place) => {
    const names = place.command.commands.map((each) => each.name());
    const words = optionsOf(place).flatMap(flagsOf);
    return `    ${quoted(place.path)}) names=${quoted(names.join(" "))} flags=${quoted(words.join(" "))} ;;\n`;
  });
  const values = places.flatMap((place) =>
    optionsOf(place).flatMap((option) => {
      if (!option.required) return [];
      const at = flagsOf(option)
        .map((flag) => quoted(`${place.path} ${flag}`))
        .join("|");
      return [`    ${at}) values=${quoted(option.argChoices?.join(" ") ?? "-")} ;;\n`];
    }),
  );
  return `${BASH_HEAD}      ${known}) path=$word ;;
    esac
  done
  case "$path" in
${flags.join("")}  esac
  case "$path $prev" in
${values.join("")}    'completion completion') values='bash zsh fish' ;;
  esac
  if [[ $values == - ]]; then
    compopt -o default 2>/dev/null
  elif [[ -n $values ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$values" -- "$cur")
  elif [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$cur")
  elif [[ -n $names ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$names" -- "$cur")
  else
    compopt -o default 2>/dev/null
  fi
}
complete -F _perigee perigee
`;
}

function zshScript(places: readonly Place[]): string {
  const paths = places.map(({ path }) => path).filter((path) => path !== "");
  const cases = places.map((place) => {
    const names = place.command.commands.map((each) => quoted(`${each.name()}:${each.description()}`));
    const specs = optionsOf(place).flatMap((option) =>
      flagsOf(option).map((flag) => quoted(zshSpec(flag, option))),
    );
    const rest =
      place.path === "completion"
        ? "'1:shell:(bash zsh fish)'"
        : names.length > 0
          ? "'1: :->names'"
          : "'*:file:_files'";
    const described = names.length === 0 ? "" : `      names=(${names.join(" ")})\n`;
    return `    ${quoted(place.path)})\n${described}      _arguments -s ${[...specs, rest].join(" ")}\n      ;;\n`;
  });
  return `#compdef perigee
# Completion of perigee for zsh. To use it in each new shell, in a folder of $fpath:
#   perigee completion zsh > ~/.zsh/completions/_perigee
_perigee() {
  local at= word i state shown=0
  local -a names
  for ((i = 2; i < CURRENT; i++)); do
    word="\${at:+$at }\${words[i]}"
    case "$word" in
      ${paths.map(quoted).join("|")}) at=$word; (( shown = i - 1 )) ;;
    esac
  done
  words=(perigee "\${(@)words[$shown+2,-1]}")
  (( CURRENT -= $shown ))
  case "$at" in
${cases.join("")}  esac
  [[ $state == names ]] && _describe command names
  return 0
}
if [[ $funcstack[1] == _perigee ]]; then
  _perigee "$@"
else
  compdef _perigee perigee
fi
`;
}

/** `--format[of the lines]:value:(perigee openai raw)`. */
function zshSpec(flag: string, option: DeclaredOption): string {
  const text = option.description.replace(/[[\]\\:]/g, "\\$&");
  const spec = `${flag}[${text}]`;
  if (option.argChoices !== undefined) return `${spec}:value:(${option.argChoices.join(" ")})`;
  return option.required ? `${spec}:value:_files` : spec;
}

function fishScript(places: readonly Place[]): string {
  const paths = places.map(({ path }) => path).filter((path) => path !== "");
  const lines = places.flatMap((place) => {
    const when = `-n ${fishQuoted(`__perigee_at "${place.path}"`)}`;
    const names = place.command.commands.map(
      (each) =>
        `complete -c perigee ${when} -f -a ${fishQuoted(each.name())} -d ${fishQuoted(each.description())}`,
    );
    const options = optionsOf(place).map((option) => {
      const { short, long, description, required, argChoices } = option;
      const flags = [
        ...(long === undefined ? [] : [`-l ${long.slice(2)}`]),
        ...(short === undefined ? [] : [`-s ${short.slice(1)}`]),
      ].join(" ");
      const value =
        argChoices === undefined ? (required ? " -r" : "") : ` -x -a ${fishQuoted(argChoices.join(" "))}`;
      return `complete -c perigee ${when} ${flags}${value} -d ${fishQuoted(description)}`;
    });
    return [...names, ...options];
  });
  return `# Completion of perigee for fish. To use it in each new shell:
#   perigee completion fish > ~/.config/fish/completions/perigee.fish
function __perigee_at
  set -l at ''
  for word in (commandline -opc)[2..-1]
    set -l next (string trim -- "$at $word")
    switch $next
      case ${paths.map(fishQuoted).join(" ")}
        set at $next
    end
  end
  test "$at" = "$argv[1]"
end
${lines.join("\n")}
complete -c perigee -n '__perigee_at completion' -f -a 'bash zsh fish'
`;
}

/** In single quotes of bash and zsh. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function fishQuoted(text: string): string {
  return `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
}
