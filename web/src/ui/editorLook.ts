import { defaultHighlightStyle, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import type { Extension } from "@codemirror/state";
import { EditorView } from "@codemirror/view";
import { tags as t } from "@lezer/highlight";

const darkColours = HighlightStyle.define([
  { tag: [t.propertyName, t.keyword], color: "#8ecdf0" },
  { tag: [t.string, t.special(t.string)], color: "#9fe0b0" },
  { tag: [t.number, t.bool, t.null], color: "#ffc078" },
  { tag: [t.comment, t.lineComment, t.blockComment], color: "#a3adb8", fontStyle: "italic" },
  { tag: [t.typeName, t.standard(t.name)], color: "#d0bfff" },
]);
const lightColours = HighlightStyle.define([
  { tag: [t.propertyName, t.keyword], color: "#005a7d" },
  { tag: [t.string, t.special(t.string)], color: "#1c6b3a" },
  { tag: [t.number, t.bool, t.null], color: "#9a4a00" },
  { tag: [t.comment, t.lineComment, t.blockComment], color: "#57616c", fontStyle: "italic" },
  { tag: [t.typeName, t.standard(t.name)], color: "#6741a5" },
]);

/** Colours and sizes of an editor in a colour scheme. */
export const editorLook = (scheme: string, room: Record<string, string>): Extension => [
  EditorView.theme(
    {
      "&": {
        fontSize: "13px",
        backgroundColor: "var(--mantine-color-body)",
        color: "var(--mantine-color-text)",
      },
      ".cm-scroller": {
        fontFamily: "var(--mantine-font-family-monospace)",
        fontVariantLigatures: "none",
        ...room,
      },
      ".cm-gutters": {
        backgroundColor: "var(--pond-sunken)",
        color: "var(--mantine-color-dimmed)",
        border: "none",
      },
      ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--mantine-color-default-hover)" },
      ".cm-placeholder": { color: "var(--mantine-color-dimmed)" },
      ".cm-cursor": { borderLeftColor: "var(--mantine-color-text)" },
    },
    { dark: scheme === "dark" },
  ),
  syntaxHighlighting(scheme === "dark" ? darkColours : lightColours),
  syntaxHighlighting(defaultHighlightStyle, { fallback: true }),
];
