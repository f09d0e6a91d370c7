import { Button, PasswordInput, Stack, Text, TextInput } from "@mantine/core";
import { schemaResolver, useForm } from "@mantine/form";
import { useMutation } from "@tanstack/react-query";
import { z } from "zod";
import { ChangePasswordDocument } from "@/gql/gen";
import { RequestError, request } from "@/lib/graphql";
import { done } from "@/lib/notify";
import { ErrorPanel } from "@/ui/States";

const schema = z
  .object({
    current: z.string().min(1, "Enter your current password."),
    new: z.string().min(12, "Use at least 12 characters; a few words are easy to remember."),
    again: z.string(),
  })
  .refine((v) => v.new === v.again, { path: ["again"], message: "This is not the same password." });

/** Changes the signed-in user's password, which ends their other sessions. */
export function PasswordForm({ email }: { email: string }) {
  const form = useForm({
    mode: "uncontrolled",
    initialValues: { current: "", new: "", again: "" },
    validate: schemaResolver(schema, { sync: true }),
  });
  const change = useMutation({
    mutationFn: (v: z.infer<typeof schema>) =>
      request(ChangePasswordDocument, { input: { current: v.current, new: v.new } }),
    onSuccess: () => {
      form.reset();
      done("Your password is changed. All your other sessions have ended.");
    },
    onError: (e) => {
      if (e instanceof RequestError && e.field && e.field in form.getValues())
        form.setFieldError(e.field, e.message);
    },
  });
  const unplaced = change.error && !(change.error instanceof RequestError && change.error.field);
  return (
    <form onSubmit={form.onSubmit((v) => change.mutate(v))} noValidate>
      <Stack gap="sm">
        {unplaced && <ErrorPanel error={change.error} />}
        <TextInput label="E-mail" value={email} readOnly autoComplete="username" />
        <PasswordInput
          label="Current password"
          autoComplete="current-password"
          key={form.key("current")}
          {...form.getInputProps("current")}
        />
        <PasswordInput
          label="New password"
          autoComplete="new-password"
          key={form.key("new")}
          {...form.getInputProps("new")}
        />
        <PasswordInput
          label="New password, once more"
          autoComplete="new-password"
          key={form.key("again")}
          {...form.getInputProps("again")}
        />
        <Text size="xs" c="dimmed">
          All your other sessions end.
        </Text>
        <Button type="submit" variant="default" loading={change.isPending}>
          Change the password
        </Button>
      </Stack>
    </form>
  );
}
