/**
 * Words of the option that is beside each `--config`.
 */
export const NO_CONFIG = [
  "--no-config",
  "use neither the nearest perigee.config.yaml (.yml, .json) nor the nearest .env",
] as const;
