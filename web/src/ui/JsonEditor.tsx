import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { json, jsonParseLinter } from "@codemirror/lang-json";
import {
  bracketMatching,
  defaultHighlightStyle,
  foldGutter,
  HighlightStyle,
  indentOnInput,
  syntaxHighlighting,
} from "@codemirror/language";
import { linter, lintGutter } from "@codemirror/lint";
import { Compartment, EditorState } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  keymap,
  lineNumbers,
  tooltips,
} from "@codemirror/view";
import { tags as t } from "@lezer/highlight";
import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useEffectEvent, useRef } from "react";
import { nonce } from "@/boot";

const darkColours = HighlightStyle.define([
  { tag: t.propertyName, color: "#8ecdf0" },
  { tag: t.string, color: "#9fe0b0" },
  { tag: [t.number, t.bool, t.null], color: "#ffc078" },
]);
const lightColours = HighlightStyle.define([
  { tag: t.propertyName, color: "#005a7d" },
  { tag: t.string, color: "#1c6b3a" },
  { tag: [t.number, t.bool, t.null], color: "#9a4a00" },
]);

const look = (scheme: string) => [
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
        minHeight: "320px",
        maxHeight: "62vh",
      },
      ".cm-gutters": {
        backgroundColor: "var(--pond-sunken)",
        color: "var(--mantine-color-dimmed)",
        border: "none",
      },
      ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--mantine-color-default-hover)" },
      ".cm-cursor": { borderLeftColor: "var(--mantine-color-text)" },
    },
    { dark: scheme === "dark" },
  ),
  syntaxHighlighting(scheme === "dark" ? darkColours : lightColours),
  syntaxHighlighting(defaultHighlightStyle, { fallback: true }),
];

/** JSON with colours, folding and errors at their place. */
export function JsonEditor({
  value,
  onChange,
  error,
  label,
}: {
  value: string;
  onChange: (s: string) => void;
  error: string | null;
  label: string;
}) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const theme = useRef(new Compartment());
  const scheme = useComputedColorScheme("light");
  const changed = useEffectEvent((s: string) => onChange(s));
  // biome-ignore lint/correctness/useExhaustiveDependencies: the editor is made once and then changed
  useEffect(() => {
    if (!host.current) return;
    const v = new EditorView({
      parent: host.current,
      state: EditorState.create({
        doc: value,
        extensions: [
          EditorView.cspNonce.of(nonce),
          tooltips({ parent: document.body }),
          lineNumbers(),
          foldGutter(),
          lintGutter(),
          history(),
          drawSelection(),
          indentOnInput(),
          bracketMatching(),
          highlightActiveLine(),
          highlightActiveLineGutter(),
          json(),
          linter(jsonParseLinter(), { delay: 250 }),
          keymap.of([...defaultKeymap, ...historyKeymap, indentWithTab]),
          theme.current.of(look(scheme)),
          EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
          EditorView.updateListener.of((u) => {
            if (u.docChanged) changed(u.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = v;
    return () => v.destroy();
  }, []);
  useEffect(() => {
    view.current?.dispatch({ effects: theme.current.reconfigure(look(scheme)) });
  }, [scheme]);
  return <div ref={host} data-invalid={error ? true : undefined} />;
}
