import "./boot";
import "@fontsource-variable/inter";
import "@fontsource-variable/jetbrains-mono";
import "@mantine/core/styles.css";
import "@mantine/notifications/styles.css";
import "@mantine/spotlight/styles.css";
import "./app.css";
import { MantineProvider } from "@mantine/core";
import { ModalsProvider } from "@mantine/modals";
import { Notifications } from "@mantine/notifications";
import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createRouter, RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { nonce } from "./boot";
import { isPublic } from "./lib/auth";
import { isCode, RequestError } from "./lib/graphql";
import { parseSearch, stringifySearch } from "./lib/search";
import { sessionQuery } from "./lib/session";
import { onDenied, onReconnect } from "./lib/socket";
import { routeTree } from "./routeTree.gen";
import { cssVariablesResolver, theme } from "./theme";
import { ErrorPage, LostPage } from "./ui/Fallbacks";

/** The server decides whether the session has ended: a wrong password is "unauthenticated" too. */
async function checkSession() {
  if (isPublic(location.pathname)) return;
  const session = await queryClient.fetchQuery({ ...sessionQuery, staleTime: 0 }).catch(() => null);
  if (!session || session.viewer || isPublic(location.pathname)) return;
  const to = location.pathname + location.search;
  queryClient.clear();
  void router.navigate({ to: "/login", search: { to } });
}
const onError = (e: Error) => {
  if (isCode(e, "UNAUTHENTICATED")) void checkSession();
};

const queryClient: QueryClient = new QueryClient({
  queryCache: new QueryCache({ onError }),
  mutationCache: new MutationCache({ onError }),
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      retry: (n, e) => n < 2 && (!(e instanceof RequestError) || e.code === "UNAVAILABLE"),
    },
  },
});
onReconnect(() => void queryClient.invalidateQueries());
onDenied(() => void checkSession());

// A page from before an upgrade requests deleted files: load the new page, once.
window.addEventListener("vite:preloadError", (e) => {
  if (sessionStorage.getItem("millpond-reloaded")) return;
  sessionStorage.setItem("millpond-reloaded", "1");
  e.preventDefault();
  location.reload();
});

const router = createRouter({
  routeTree,
  parseSearch,
  stringifySearch,
  context: { queryClient },
  defaultPreload: "intent",
  defaultPreloadStaleTime: 0,
  defaultErrorComponent: ErrorPage,
  defaultNotFoundComponent: () => <LostPage />,
  scrollRestoration: true,
});
declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

const root = document.getElementById("root");
if (!root) throw new Error("no root");
createRoot(root).render(
  <StrictMode>
    <MantineProvider
      theme={theme}
      defaultColorScheme="auto"
      cssVariablesResolver={cssVariablesResolver}
      getStyleNonce={() => nonce}
    >
      <QueryClientProvider client={queryClient}>
        <ModalsProvider>
          <Notifications position="bottom-right" />
          <RouterProvider router={router} />
        </ModalsProvider>
      </QueryClientProvider>
    </MantineProvider>
  </StrictMode>,
);
