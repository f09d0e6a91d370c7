import { showSecret } from "@/ui/dialogs";

/** Shows the invitation's link once. */
export function showInvitation(who: string, link: string) {
  showSecret({
    title: `Invite ${who}`,
    secret: link,
    note: "Send this link to the new member: it works once, for a week. They accept with the password of their account, or set one if they have no account. Anybody with the link and the password can join, so send it to nobody else.",
  });
}
