import { ActionIcon, AppShell, Burger, Group, Kbd, Tooltip, UnstyledButton } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { spotlight } from "@mantine/spotlight";
import { IconKeyboard, IconSearch } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { Link, Outlet, useNavigate } from "@tanstack/react-router";
import { useSyncExternalStore } from "react";
import { useShortcuts } from "@/lib/hotkeys";
import { sessionQuery } from "@/lib/session";
import { connection } from "@/lib/socket";
import { Logo } from "@/ui/Logo";
import { AccountMenu } from "./AccountMenu";
import { useLiveWorkspace } from "./live";
import { pages, sections } from "./nav";
import { Palette } from "./Palette";
import { SchemeToggle } from "./SchemeToggle";
import { ShortcutsDialog } from "./ShortcutsDialog";

const words = {
  idle: "",
  connecting: "Connecting",
  live: "Live",
  retrying: "Reconnecting",
  denied: "Signed out",
} as const;

function LiveBadge() {
  const state = useSyncExternalStore(connection.subscribe, connection.get);
  return (
    <span className="live" data-state={state} role="status" aria-label="Connection">
      {words[state] && <i aria-hidden="true" />}
      {words[state]}
    </span>
  );
}

/** The frame of every page after sign-in. */
export function Shell() {
  useLiveWorkspace();
  const navigate = useNavigate();
  const [menu, { toggle, close }] = useDisclosure();
  const [help, helpDialog] = useDisclosure();
  const version = useQuery(sessionQuery).data?.instance.version;
  useShortcuts("Everywhere", [
    { keys: ["/"], label: "Search and commands (also Ctrl+K)", run: spotlight.open },
    { keys: ["?"], label: "These shortcuts", run: helpDialog.open },
    ...pages.map((p) => ({
      keys: ["g", p.key],
      label: `Go to ${p.label}`,
      run: () => void navigate({ to: p.to }),
    })),
  ]);
  return (
    <AppShell
      layout="alt"
      header={{ height: 52 }}
      navbar={{ width: 212, breakpoint: "sm", collapsed: { mobile: !menu } }}
      padding={{ base: "md", lg: "lg" }}
    >
      <a href="#main" className="skip-link">
        Skip to content
      </a>
      <AppShell.Header className="frame-header">
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap">
            <Burger opened={menu} onClick={toggle} hiddenFrom="sm" size="sm" aria-label="Navigation" />
            <UnstyledButton className="search-button" onClick={spotlight.open}>
              <IconSearch size={15} aria-hidden />
              <span>Search and commands</span>
              <Kbd size="xs" visibleFrom="sm">
                Ctrl K
              </Kbd>
            </UnstyledButton>
          </Group>
          <Group gap={8} wrap="nowrap">
            <LiveBadge />
            <Tooltip label="Keyboard shortcuts (?)">
              <ActionIcon
                variant="subtle"
                color="gray"
                size={34}
                aria-label="Keyboard shortcuts"
                onClick={helpDialog.open}
                visibleFrom="sm"
              >
                <IconKeyboard size={18} stroke={1.7} />
              </ActionIcon>
            </Tooltip>
            <SchemeToggle />
            <AccountMenu />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar className="frame-navbar" aria-label="Pages">
        <div className="nav-brand">
          <Link to="/" className="logo" onClick={close}>
            <Logo />
          </Link>
        </div>
        {sections.map((s) => (
          <div key={s.title}>
            <div className="nav-title">{s.title}</div>
            {s.pages.map((p) => (
              <Link
                key={p.to}
                to={p.to}
                className="nav-link"
                activeOptions={{ exact: p.to === "/", includeSearch: false }}
                activeProps={{ "data-active": true }}
                onClick={close}
              >
                <p.icon size={17} stroke={1.7} aria-hidden />
                {p.label}
              </Link>
            ))}
          </div>
        ))}
        <div className="nav-foot">{version && `Millpond ${version}`}</div>
      </AppShell.Navbar>
      <AppShell.Main id="main">
        <Outlet />
      </AppShell.Main>
      <Palette onShortcuts={helpDialog.open} />
      <ShortcutsDialog opened={help} onClose={helpDialog.close} />
    </AppShell>
  );
}
