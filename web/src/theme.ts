import { type CSSVariablesResolver, createTheme, type MantineColorsTuple } from "@mantine/core";

const pond: MantineColorsTuple = [
  "#e9f5f9",
  "#d2e8f0",
  "#a3d0e1",
  "#71b6d1",
  "#4ba1c4",
  "#3494bc",
  "#248db9",
  "#1279a3",
  "#006a90",
  "#005a7d",
];
const slate: MantineColorsTuple = [
  "#d3d9e0",
  "#b4bdc8",
  "#8f9aa8",
  "#5d6877",
  "#39434f",
  "#2b343e",
  "#1e252d",
  "#161b21",
  "#10141a",
  "#0b0e12",
];

export const theme = createTheme({
  fontFamily: "'Inter Variable', system-ui, sans-serif",
  fontFamilyMonospace: "'JetBrains Mono Variable', ui-monospace, monospace",
  headings: { fontWeight: "650" },
  colors: { pond, dark: slate },
  primaryColor: "pond",
  primaryShade: { light: 8, dark: 8 },
  autoContrast: true,
  luminanceThreshold: 0.35,
  defaultRadius: "md",
  cursorType: "pointer",
  respectReducedMotion: true,
  components: {
    Tooltip: { defaultProps: { withArrow: true, openDelay: 250, fz: "xs" } },
    Button: { defaultProps: { size: "sm" } },
    Modal: {
      defaultProps: {
        centered: true,
        closeButtonProps: { "aria-label": "Close" },
        attributes: { header: { role: "presentation" } },
      },
    },
    Table: { defaultProps: { verticalSpacing: 7, horizontalSpacing: "sm", highlightOnHover: true } },
    Notification: { defaultProps: { closeButtonProps: { "aria-label": "Dismiss" } } },
    Menu: { defaultProps: { shadow: "md", position: "bottom-end" } },
    Paper: { defaultProps: { radius: "md" } },
  },
});

/** Mantine's defaults for dimmed text, placeholders and "light" badges miss WCAG AA (4.5:1). */
export const cssVariablesResolver: CSSVariablesResolver = (t) => {
  const light: Record<string, string> = {
    "--mantine-color-dimmed": "#57616c",
    "--mantine-color-placeholder": "#66707b",
    "--mantine-color-anchor": pond[8],
    "--mantine-color-error": t.colors.red[8],
    "--mantine-color-default-border": "#dfe3e8",
    "--pond-canvas": "#f6f8fa",
    "--pond-sunken": "#f1f4f7",
  };
  const dark: Record<string, string> = {
    "--mantine-color-text": "#e4e9ef",
    "--mantine-color-bright": "#f4f6f9",
    "--mantine-color-dimmed": slate[1],
    "--mantine-color-placeholder": slate[2],
    "--mantine-color-anchor": pond[3],
    "--mantine-color-error": t.colors.red[4],
    "--mantine-color-body": slate[7],
    "--mantine-color-default": slate[6],
    "--mantine-color-default-border": slate[5],
    "--mantine-color-default-hover": slate[6],
    "--pond-canvas": slate[8],
    "--pond-sunken": slate[8],
  };
  for (const c of Object.keys(t.colors)) {
    light[`--mantine-color-${c}-light-color`] = `color-mix(in srgb, var(--mantine-color-${c}-9) 70%, black)`;
    dark[`--mantine-color-${c}-light-color`] = `var(--mantine-color-${c}-2)`;
  }
  return { variables: {}, light, dark };
};
