import { z } from "zod";

/** The fewest characters of a first password. */
export const minimum = 12;

/** Fields of a set-up link: the password of an existing account, or a new password twice. */
export const setUpSchema = z
  .object({
    account: z.boolean(),
    email: z.email("Enter an e-mail address, such as ada@example.org."),
    name: z.string(),
    password: z.string().min(1, "Enter the password."),
    again: z.string(),
  })
  .refine((v) => v.account || !v.password || [...v.password].length >= minimum, {
    path: ["password"],
    message: `Use at least ${minimum} characters; a few words are easy to remember.`,
  })
  .refine((v) => v.account || v.password === v.again, {
    path: ["again"],
    message: "This is not the same password.",
  });

export type SetUpValues = z.infer<typeof setUpSchema>;

/** The heading, the lead and the button of the set-up page. */
export function setUpTexts(first: boolean, account: boolean) {
  if (first)
    return {
      title: "Create the administrator",
      lead: "This is the first start. The account you create now manages members, keys and quotas. Nothing else needs to be configured.",
      action: "Create the administrator",
    };
  if (account)
    return {
      title: "Accept the invitation",
      lead: "You were invited to this workspace. Use the e-mail address of the invitation, and the password that you sign in with: your account stays as it is, and gets this workspace as well.",
      action: "Accept the invitation",
    };
  return {
    title: "Set your password",
    lead: "You were invited to this workspace. Use the e-mail address of the invitation.",
    action: "Set the password",
  };
}
