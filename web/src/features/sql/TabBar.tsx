import { ActionIcon, Tooltip } from "@mantine/core";
import { IconPlus, IconX } from "@tabler/icons-react";
import { useState } from "react";
import type { TabStore, Tabs } from "@/lib/sqlTabs";
import { confirm } from "@/ui/dialogs";

/** The open tabs. A double click or F2 renames a tab. */
export function TabBar({ tabs, store }: { tabs: Tabs; store: TabStore }) {
  const [naming, setNaming] = useState<string | null>(null);
  const rename = (id: string, name: string) => {
    if (name.trim()) store.change(id, { name: name.trim().slice(0, 60) });
    setNaming(null);
  };
  const close = (id: string) => {
    const tab = tabs.list.find((t) => t.id === id);
    if (!tab?.text.trim()) return store.close(id);
    confirm({
      title: `Close ${tab.name}?`,
      effect: "Its text is deleted. Its statements stay in the history.",
      action: "Close it",
      run: () => store.close(id),
    });
  };
  return (
    <nav className="sql-tabs" aria-label="Queries">
      {tabs.list.map((t) => (
        <div key={t.id} className="sql-tab" data-active={t.id === tabs.active || undefined}>
          {naming === t.id ? (
            <input
              aria-label="Name of the query"
              defaultValue={t.name}
              // biome-ignore lint/a11y/noAutofocus: the reader has just asked for it
              autoFocus
              onFocus={(e) => e.currentTarget.select()}
              onBlur={(e) => rename(t.id, e.currentTarget.value)}
              onKeyDown={(e) => {
                if (e.key === "Enter") rename(t.id, e.currentTarget.value);
                if (e.key === "Escape") setNaming(null);
              }}
            />
          ) : (
            <button
              type="button"
              aria-current={t.id === tabs.active || undefined}
              title={`${t.name}; a double click, or F2, renames it`}
              onClick={() => store.show(t.id)}
              onDoubleClick={() => setNaming(t.id)}
              onKeyDown={(e) => {
                if (e.key === "F2") setNaming(t.id);
              }}
            >
              {t.name}
            </button>
          )}
          <ActionIcon
            variant="subtle"
            color="gray"
            size={24}
            aria-label={`Close ${t.name}`}
            onClick={() => close(t.id)}
          >
            <IconX size={13} />
          </ActionIcon>
        </div>
      ))}
      <Tooltip label="New query">
        <ActionIcon variant="subtle" color="gray" aria-label="New query" onClick={() => store.open({})}>
          <IconPlus size={16} />
        </ActionIcon>
      </Tooltip>
    </nav>
  );
}
