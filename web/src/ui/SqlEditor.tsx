import {
  autocompletion,
  type CompletionSource,
  closeBrackets,
  closeBracketsKeymap,
  closeCompletion,
  completionKeymap,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { keywordCompletionSource, sql } from "@codemirror/lang-sql";
import { bracketMatching, foldGutter, indentOnInput } from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, Prec } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightActiveLineGutter,
  keymap,
  lineNumbers,
  placeholder,
  tooltips,
} from "@codemirror/view";
import { useComputedColorScheme } from "@mantine/core";
import { type Ref, useEffect, useEffectEvent, useImperativeHandle, useRef } from "react";
import { nonce } from "@/boot";
import { type Stretch, statementAt } from "@/lib/sqlText";
import { editorLook } from "./editorLook";
import { DuckDB } from "./sqlDialect";

/** An error and its position. */
export interface Mark extends Stretch {
  message: string;
}

/** The editor's methods for other components. */
export interface SqlEditorHandle {
  /** The selection, or the statement at the cursor; null where there is none. */
  atCursor: () => Stretch | null;
  insert: (text: string) => void;
  replaceAll: (text: string) => void;
  goTo: (at: number) => void;
  focus: () => void;
}

const look = (scheme: string) => editorLook(scheme, { height: "100%" });

const atCursor = (v: EditorView): Stretch | null => {
  const { from, to, head } = v.state.selection.main;
  if (from < to && v.state.sliceDoc(from, to).trim()) return { from, to };
  return statementAt(v.state.doc.toString(), head) ?? null;
};

/** An editor of SQL text. It is created once: key it by the text. */
export default function SqlEditor({
  value,
  onChange,
  onRun,
  onRunAll,
  onFormat,
  complete,
  mark,
  ref,
}: {
  value: string;
  onChange: (s: string) => void;
  /** Ctrl+Enter: the selection, or the statement at the cursor. */
  onRun: () => void;
  /** Ctrl+Shift+Enter. */
  onRunAll: () => void;
  onFormat: () => void;
  complete: CompletionSource;
  mark: Mark | null;
  ref: Ref<SqlEditorHandle>;
}) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView>(null);
  const theme = useRef(new Compartment());
  const scheme = useComputedColorScheme("light");
  const changed = useEffectEvent((s: string) => onChange(s));
  const run = useEffectEvent(onRun);
  const runAll = useEffectEvent(onRunAll);
  const format = useEffectEvent(onFormat);
  const suggest = useEffectEvent(complete);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the editor is made once and then changed
  useEffect(() => {
    if (!host.current) return;
    const handled = (f: () => void) => (of: EditorView) => {
      closeCompletion(of);
      f();
      return true;
    };
    const keys = [
      { key: "Mod-Enter", run: handled(run) },
      { key: "Mod-Shift-Enter", run: handled(runAll) },
      { key: "Shift-Alt-f", run: handled(format) },
    ];
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
          closeBrackets(),
          autocompletion({
            override: [(c) => suggest(c), keywordCompletionSource(DuckDB, true)],
            maxRenderedOptions: 60,
          }),
          highlightActiveLine(),
          highlightActiveLineGutter(),
          highlightSelectionMatches(),
          placeholder("SELECT …"),
          sql({ dialect: DuckDB, upperCaseKeywords: true }).language,
          Prec.highest(keymap.of(keys)),
          keymap.of([
            ...closeBracketsKeymap,
            ...defaultKeymap.filter((k) => k.key !== "Mod-Enter"),
            ...searchKeymap,
            ...historyKeymap,
            ...completionKeymap,
            indentWithTab,
          ]),
          theme.current.of(look(scheme)),
          EditorView.contentAttributes.of({ "aria-label": "SQL", tabindex: "0" }),
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
  useEffect(() => {
    const v = view.current;
    if (!v) return;
    const fits = mark && mark.to <= v.state.doc.length;
    v.dispatch(setDiagnostics(v.state, fits ? [{ ...mark, severity: "error" }] : []));
  }, [mark]);
  useImperativeHandle(ref, () => ({
    atCursor: () => (view.current ? atCursor(view.current) : null),
    insert: (text) => {
      const v = view.current;
      if (!v) return;
      v.dispatch(v.state.replaceSelection(text));
      v.focus();
    },
    replaceAll: (text) => {
      const v = view.current;
      v?.dispatch({ changes: { from: 0, to: v.state.doc.length, insert: text } });
    },
    goTo: (at) => {
      const v = view.current;
      if (!v) return;
      v.dispatch({ selection: { anchor: Math.min(at, v.state.doc.length) }, scrollIntoView: true });
      v.focus();
    },
    focus: () => view.current?.focus(),
  }));
  return <div ref={host} className="sql-editor" />;
}
