import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { json, jsonParseLinter } from "@codemirror/lang-json";
import { bracketMatching, foldGutter, indentOnInput } from "@codemirror/language";
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
import { useComputedColorScheme } from "@mantine/core";
import { useEffect, useEffectEvent, useRef } from "react";
import { nonce } from "@/boot";
import { editorLook } from "./editorLook";

const look = (scheme: string) => editorLook(scheme, { minHeight: "320px", maxHeight: "62vh" });

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
          tooltips({ parent: document.querySelector("main") ?? document.body }),
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
