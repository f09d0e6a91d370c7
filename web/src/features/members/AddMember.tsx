import { Button, Group, Select, Stack, TextInput } from "@mantine/core";
import { schemaResolver, useForm } from "@mantine/form";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { z } from "zod";
import { AddMemberDocument, Role } from "@/gql/gen";
import { RequestError, request } from "@/lib/graphql";
import { ErrorPanel } from "@/ui/States";
import { showInvitation } from "./invite";
import { membersQuery } from "./queries";
import { roleOptions } from "./roles";

const schema = z.object({
  email: z.email("Enter an e-mail address."),
  name: z.string(),
  role: z.enum(Role),
});

/** Invites somebody. The one-time link for accepting is shown once. */
export function AddMember({ onClose }: { onClose: () => void }) {
  const qc = useQueryClient();
  const form = useForm<z.infer<typeof schema>>({
    mode: "uncontrolled",
    initialValues: { email: "", name: "", role: Role.Editor },
    validate: schemaResolver(schema, { sync: true }),
  });
  const add = useMutation({
    mutationFn: (v: z.infer<typeof schema>) =>
      request(AddMemberDocument, {
        input: { email: v.email, role: v.role, ...(v.name ? { name: v.name } : {}) },
      }),
    onSuccess: ({ addMember: { member, setUpUrl } }) => {
      void qc.invalidateQueries({ queryKey: membersQuery.queryKey });
      onClose();
      if (setUpUrl) showInvitation(member.user.name || member.user.email, setUpUrl);
    },
    onError: (e) => {
      if (e instanceof RequestError && e.field && e.field in form.getValues())
        form.setFieldError(e.field, e.message);
    },
  });
  return (
    <form onSubmit={form.onSubmit((v) => add.mutate(v))} noValidate>
      <Stack>
        {add.error && <ErrorPanel error={add.error} />}
        <TextInput
          label="E-mail"
          type="email"
          withAsterisk
          data-autofocus
          key={form.key("email")}
          {...form.getInputProps("email")}
        />
        <TextInput label="Name" key={form.key("name")} {...form.getInputProps("name")} />
        <Select
          label="Role"
          data={roleOptions}
          allowDeselect={false}
          key={form.key("role")}
          {...form.getInputProps("role")}
        />
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Not now
          </Button>
          <Button type="submit" loading={add.isPending}>
            Add the member
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
