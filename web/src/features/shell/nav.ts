import {
  IconAffiliate,
  IconCpu,
  IconDatabase,
  IconFlask,
  IconHome,
  IconKey,
  IconListDetails,
  IconServer2,
  IconSettings,
  IconTable,
  IconTerminal2,
  IconUsers,
} from "@tabler/icons-react";

/** The pages of the console in the order of the side bar. `key` follows g. */
export const sections = [
  {
    title: "Work",
    pages: [
      { to: "/", label: "Overview", icon: IconHome, key: "o" },
      { to: "/jobs", label: "Jobs", icon: IconAffiliate, key: "j" },
      { to: "/runs", label: "Runs", icon: IconListDetails, key: "r" },
      { to: "/experiments", label: "Experiments", icon: IconFlask, key: "e" },
    ],
  },
  {
    title: "Data",
    pages: [
      { to: "/sql", label: "SQL", icon: IconTerminal2, key: "q" },
      { to: "/catalog", label: "Catalog", icon: IconTable, key: "d" },
    ],
  },
  {
    title: "Machines",
    pages: [
      { to: "/compute", label: "Compute", icon: IconCpu, key: "c" },
      { to: "/warehouses", label: "Warehouses", icon: IconDatabase, key: "w" },
    ],
  },
  {
    title: "Workspace",
    pages: [
      { to: "/agents", label: "Agents", icon: IconServer2, key: "a" },
      { to: "/api-keys", label: "API keys", icon: IconKey, key: "k" },
      { to: "/members", label: "Members", icon: IconUsers, key: "m" },
      { to: "/settings", label: "Settings", icon: IconSettings, key: "s" },
    ],
  },
] as const;

export const pages = [...sections[0].pages, ...sections[1].pages, ...sections[2].pages, ...sections[3].pages];
