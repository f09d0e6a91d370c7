import { notifications } from "@mantine/notifications";
import { RequestError } from "./graphql";

/** Says that something was done. */
export const done = (message: string) => notifications.show({ message, color: "teal", autoClose: 4_000 });

/** Says that something failed and why, with the id to find it in the server's log. */
export function failed(title: string, e: unknown) {
  const message = e instanceof Error ? e.message : String(e);
  const id = e instanceof RequestError && e.code === "INTERNAL" ? e.requestId : null;
  notifications.show({
    title,
    message: id ? `${message} Request ${id}.` : message,
    color: "red",
    autoClose: 12_000,
  });
}
