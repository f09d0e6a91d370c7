/** A value for a $1 or a ?, as it was typed. */
export interface Parameter {
  kind: "text" | "number" | "boolean" | "null";
  value: string;
}

/** A statement that a tab has run, and its part of the text. */
export interface TabRun {
  id: string;
  from: number;
  text: string;
}

/** A SQL text, its warehouse and its last runs. */
export interface SqlTab {
  id: string;
  name: string;
  text: string;
  /** Id; the workspace's first warehouse when absent. */
  warehouse?: string | undefined;
  /** The engine that must serve it; the warehouse chooses when absent. */
  engine?: string | undefined;
  database: string;
  schema: string;
  parameters: Parameter[];
  /** Maximum rows of a result; 0 for all. */
  rowLimit: number;
  runs: TabRun[];
  /** Which of the runs is shown. */
  shown: number;
}

export interface Tabs {
  readonly list: readonly SqlTab[];
  readonly active: string;
}

const defaults = { text: "", database: "lake", schema: "public", rowLimit: 1_000_000 };

type Storage = Pick<globalThis.Storage, "getItem" | "setItem" | "removeItem">;
interface Index {
  ids: string[];
  active: string;
}

const freshId = () => crypto.getRandomValues(new Uint32Array(2)).join("").slice(0, 16);

const parse = <T>(json: string | null): T | null => {
  try {
    return json ? (JSON.parse(json) as T) : null;
  } catch {
    return null;
  }
};

const isTab = (t: SqlTab | null): t is SqlTab =>
  typeof t?.id === "string" &&
  typeof t.text === "string" &&
  Array.isArray(t.runs) &&
  Array.isArray(t.parameters);

/**
 * The tabs of the SQL editor in one workspace, stored in this browser. Each has its own entry, so
 * that two windows do not overwrite each other's texts; a tab of another window stays.
 */
export class TabStore {
  private tabs: Tabs;
  private readonly closed = new Set<string>();
  private readonly listeners = new Set<() => void>();
  /** Whether the browser refused to store them; they are then lost with the page. */
  full = false;

  constructor(
    private readonly key: string,
    private readonly storage: Storage,
  ) {
    const index = parse<Index>(storage.getItem(key));
    const list = (index?.ids ?? []).map((id) => parse<SqlTab>(storage.getItem(`${key}-${id}`))).filter(isTab);
    if (list.length === 0) list.push(this.fresh({}, []));
    const first = list[0] as SqlTab;
    this.tabs = {
      list,
      active: list.some((t) => t.id === index?.active) ? (index as Index).active : first.id,
    };
  }

  readonly get = () => this.tabs;
  readonly subscribe = (f: () => void) => {
    this.listeners.add(f);
    return () => {
      this.listeners.delete(f);
    };
  };

  private fresh(t: Partial<SqlTab>, list: readonly SqlTab[]): SqlTab {
    const usedNames = new Set(list.map((x) => x.name));
    let n = 1;
    while (usedNames.has(`Query ${n}`)) n++;
    return { id: freshId(), name: `Query ${n}`, parameters: [], runs: [], shown: 0, ...defaults, ...t };
  }

  private set(tabs: Tabs, changed?: SqlTab) {
    this.tabs = tabs;
    for (const f of this.listeners) f();
    try {
      if (changed) this.storage.setItem(`${this.key}-${changed.id}`, JSON.stringify(changed));
      const there = parse<Index>(this.storage.getItem(this.key))?.ids ?? [];
      const own = tabs.list.map((t) => t.id);
      const others = there.filter((id) => !own.includes(id) && !this.closed.has(id));
      this.storage.setItem(
        this.key,
        JSON.stringify({ ids: [...own, ...others], active: tabs.active } satisfies Index),
      );
      this.full = false;
    } catch {
      this.full = true;
    }
  }

  /** Creates a tab and shows it. It replaces an empty tab that never ran. */
  open(t: Partial<SqlTab>): SqlTab {
    const present = this.tabs.list.find((x) => x.id === this.tabs.active);
    const base = present
      ? {
          warehouse: present.warehouse,
          engine: present.engine,
          database: present.database,
          schema: present.schema,
        }
      : {};
    const tab = this.fresh({ ...base, ...t }, this.tabs.list);
    const empty = t.text !== undefined && present && !present.text.trim() && present.runs.length === 0;
    const list = empty ? this.tabs.list.filter((x) => x.id !== present.id) : this.tabs.list;
    if (empty) this.forget(present.id);
    this.set({ list: [...list, tab], active: tab.id }, tab);
    return tab;
  }

  show(id: string) {
    if (this.tabs.list.some((t) => t.id === id)) this.set({ ...this.tabs, active: id });
  }

  change(id: string, t: Partial<Omit<SqlTab, "id">>) {
    const old = this.tabs.list.find((x) => x.id === id);
    if (!old) return;
    const tab = { ...old, ...t };
    this.set({ ...this.tabs, list: this.tabs.list.map((x) => (x.id === id ? tab : x)) }, tab);
  }

  /** Closes a tab; there is always one. */
  close(id: string) {
    const at = this.tabs.list.findIndex((t) => t.id === id);
    if (at < 0) return;
    this.forget(id);
    const list = this.tabs.list.filter((t) => t.id !== id);
    if (list.length === 0) {
      const tab = this.fresh({}, []);
      return this.set({ list: [tab], active: tab.id }, tab);
    }
    const next = (list[at] ?? list[at - 1] ?? list[0]) as SqlTab;
    this.set({ list, active: this.tabs.active === id ? next.id : this.tabs.active });
  }

  private forget(id: string) {
    this.closed.add(id);
    this.storage.removeItem(`${this.key}-${id}`);
  }
}

const stores = new Map<string, TabStore>();

/** The tabs of a workspace. */
export function tabStore(workspace: string): TabStore {
  let s = stores.get(workspace);
  if (!s) {
    s = new TabStore(`millpond-sql-${workspace}`, localStorage);
    stores.set(workspace, s);
  }
  return s;
}
