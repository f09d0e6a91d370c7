import { MantineProvider } from "@mantine/core";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { render, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, it, vi } from "vitest";
import { sessionQuery } from "@/lib/session";
import { SetUpPage } from "./SetUpPage";

const navigate = vi.fn();
vi.mock("@tanstack/react-router", () => ({ useNavigate: () => navigate, Link: () => null }));
afterEach(() => {
  vi.unstubAllGlobals();
  navigate.mockClear();
});

/**
 * The page on an instance that has its administrator; the server gives these answers to set-up, one
 * after another.
 */
function show(...answers: object[]) {
  const inputs: unknown[] = [];
  vi.stubGlobal("fetch", async (_: string, init: RequestInit) => {
    const body = JSON.parse(String(init.body));
    const session = { data: { instance: { version: "1", needsSetup: false }, viewer: null } };
    if (body.variables.input) inputs.push(body.variables.input);
    return Response.json(body.variables.input ? answers[inputs.length - 1] : session);
  });
  const qc = new QueryClient();
  qc.setQueryData(sessionQuery.queryKey, {
    instance: { version: "1", needsSetup: false },
    viewer: null,
  } as never);
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={qc}>
        <SetUpPage token="secret" email="ada@example.org" />
      </QueryClientProvider>
    </MantineProvider>,
  );
  return inputs;
}
const password = () => screen.getByLabelText(/^Password( \*)?$/);
const accepted = { data: { setUp: { viewer: null } } };
const wrong = "ada@example.org already has an account, and this is not its password.";

it("takes the password of an account, once and however short", async () => {
  const inputs = show(accepted);
  await userEvent.click(screen.getByRole("button", { name: "Enter its password." }));
  screen.getByRole("heading", { name: "Accept the invitation" });
  expect(screen.queryByLabelText(/once more/)).toBeNull();
  expect(password()).toHaveAttribute("autocomplete", "current-password");
  await userEvent.type(password(), "old one");
  await userEvent.click(screen.getByRole("button", { name: "Accept the invitation" }));
  await waitFor(() => expect(navigate).toHaveBeenCalled());
  expect(inputs).toEqual([{ token: "secret", email: "ada@example.org", password: "old one" }]);
});

it("asks for the account's password where the server says that there is an account", async () => {
  const refused = { data: null, errors: [{ message: wrong, extensions: { code: "UNAUTHENTICATED" } }] };
  const inputs = show(refused, accepted);
  await userEvent.type(screen.getByLabelText("Name"), "Ada");
  await userEvent.type(password(), "a pond by the mill");
  await userEvent.type(screen.getByLabelText(/once more/), "a pond by the mill");
  await userEvent.click(screen.getByRole("button", { name: "Set the password" }));
  await screen.findByText(wrong);
  await userEvent.clear(password());
  await userEvent.type(password(), "old one");
  await userEvent.click(screen.getByRole("button", { name: "Accept the invitation" }));
  await waitFor(() => expect(navigate).toHaveBeenCalled());
  expect(inputs).toEqual([
    { token: "secret", email: "ada@example.org", name: "Ada", password: "a pond by the mill" },
    { token: "secret", email: "ada@example.org", password: "old one" },
  ]);
});

it("goes back to a first password", async () => {
  const inputs = show();
  await userEvent.click(screen.getByRole("button", { name: "Enter its password." }));
  await userEvent.type(password(), "short");
  await userEvent.click(screen.getByRole("button", { name: "Set a first password." }));
  await userEvent.click(screen.getByRole("button", { name: "Set the password" }));
  await screen.findByText(/Use at least 12 characters/);
  expect(inputs).toEqual([]);
});
