/**
 * On what terms a service sells: what it adds to the cost, and what it gives back when a deadline is missed.
 *
 *   margin             share of the expected cost that a price is above it at least. Default 0
 *   sellBelowCost      prices may be below that. Default false
 *   refunds.missedSla  share of the charged price of an item that missed its deadline, given back. Default 0: an item without an answer
 *                      costs its caller nothing anyway, and no provider refunds a late one
 *
 * Each may be set for all projects, and for one: what a project does not set, the configuration does.
 */

/** As a configuration says it. */
export interface SaleOptions {
  /** Only for the service: share of the expected cost that its prices are above it at least, 0 to 10. Default 0. */
  readonly margin?: number;
  /** Only for the service: prices may be below the expected cost and `margin`. Default false. */
  readonly sellBelowCost?: boolean;
  /** Only for the service: share of the charged price that an item gets back which missed its deadline, 0 to 1. Default 0. */
  readonly refunds?: { readonly missedSla?: number };
}

/** For one project, complete. */
export interface SaleTerms {
  readonly margin: number;
  readonly sellsBelowCost: boolean;
  /** Of what an item is charged, 0 to 1. */
  readonly refundShare: number;
}

/** The terms of a project, by its name. */
export type SaleTermsOf = (project: string) => SaleTerms;

/** What checked options say. */
export function saleTermsOf(
  all: SaleOptions,
  projects: Readonly<Record<string, SaleOptions>> = {},
): SaleTermsOf {
  const usual = termsOf(all);
  const own = new Map(
    Object.entries(projects).map(([name, options]) => [name, termsOf({ ...all, ...given(options) })]),
  );
  return (project) => own.get(project) ?? usual;
}

function termsOf({ margin = 0, sellBelowCost = false, refunds }: SaleOptions): SaleTerms {
  return { margin, sellsBelowCost: sellBelowCost, refundShare: refunds?.missedSla ?? 0 };
}

function given({ margin, sellBelowCost, refunds }: SaleOptions): SaleOptions {
  return {
    ...(margin === undefined ? {} : { margin }),
    ...(sellBelowCost === undefined ? {} : { sellBelowCost }),
    ...(refunds?.missedSla === undefined ? {} : { refunds }),
  };
}
