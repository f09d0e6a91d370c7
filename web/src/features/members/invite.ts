import { showSecret } from "@/ui/dialogs";

/** Shows the link by which somebody accepts an invitation, once. */
export function showInvitation(who: string, link: string) {
  showSecret({
    title: `Invite ${who}`,
    secret: link,
    note: "Send this link to the new member: it works once, for a week. They accept with the password of their account, or set one if they have no account. Whoever has the link and the password comes in, so send it to them alone.",
  });
}
