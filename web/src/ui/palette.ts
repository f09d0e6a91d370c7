/** Colours of series, visible on light and dark. */
export const palette = [
  "#1c7ed6",
  "#e8590c",
  "#2b8a3e",
  "#9c36b5",
  "#0b7285",
  "#c2255c",
  "#846300",
  "#5f3dc4",
] as const;
