import { Button, Group, Select, Stack, Text, TextInput } from "@mantine/core";
import { schemaResolver, useForm } from "@mantine/form";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { z } from "zod";
import { CreateApiKeyDocument, Role } from "@/gql/gen";
import { includes } from "@/lib/auth";
import { RequestError, request } from "@/lib/graphql";
import { useRole } from "@/lib/session";
import { showSecret } from "@/ui/dialogs";
import { ErrorPanel } from "@/ui/States";

const schema = z.object({
  name: z.string().trim().min(1, "Give the key a name, such as its purpose."),
  role: z.enum(Role),
  days: z.string(),
});

const lifetimes = [
  { value: "30", label: "30 days" },
  { value: "90", label: "90 days" },
  { value: "365", label: "1 year" },
  { value: "", label: "It never ends" },
];

const expiry = (days: string) =>
  days ? new Date(Date.now() + Number(days) * 86_400_000).toISOString() : null;

/** Creates a key and shows its secret once. */
export function CreateKey({ onClose }: { onClose: () => void }) {
  const qc = useQueryClient();
  const mine = useRole() ?? Role.Viewer;
  const form = useForm({
    mode: "uncontrolled",
    initialValues: { name: "", role: Role.Viewer, days: "90" },
    validate: schemaResolver(schema, { sync: true }),
  });
  const create = useMutation({
    mutationFn: (v: z.infer<typeof schema>) =>
      request(CreateApiKeyDocument, {
        input: { name: v.name.trim(), role: v.role, expiresAt: expiry(v.days) },
      }),
    onSuccess: ({ createApiKey: { apiKey, secret } }) => {
      for (const key of ["APIKeys", "Overview"]) void qc.invalidateQueries({ queryKey: [key] });
      onClose();
      showSecret({
        title: `The secret of ${apiKey.name}`,
        secret,
        note: "Send it as a bearer token: Authorization: Bearer <secret>.",
        use: (
          <pre className="code-block">{`export MILLPOND_TOKEN=${secret}\ncurl -sS ${location.origin}/api/v1/jobs -H "Authorization: Bearer $MILLPOND_TOKEN"`}</pre>
        ),
      });
    },
    onError: (e) => {
      if (e instanceof RequestError && e.field === "name") form.setFieldError("name", e.message);
    },
  });
  const roles = Object.values(Role)
    .filter((r) => includes(mine, r))
    .map((value) => ({ value, label: value.toLowerCase() }));
  return (
    <form onSubmit={form.onSubmit((v) => create.mutate(v))} noValidate>
      <Stack>
        {create.error && <ErrorPanel error={create.error} />}
        <TextInput
          label="Name"
          description="Its purpose, such as ci or nightly-backup."
          data-autofocus
          key={form.key("name")}
          {...form.getInputProps("name")}
        />
        <Select
          label="Role"
          description="At most your own."
          data={roles}
          allowDeselect={false}
          key={form.key("role")}
          {...form.getInputProps("role")}
        />
        <Select
          label="It ends after"
          data={lifetimes}
          allowDeselect={false}
          key={form.key("days")}
          {...form.getInputProps("days")}
        />
        <Text size="xs" c="dimmed">
          The secret is shown once, on the next page.
        </Text>
        <Group justify="flex-end">
          <Button variant="default" onClick={onClose}>
            Not now
          </Button>
          <Button type="submit" loading={create.isPending}>
            Make the key
          </Button>
        </Group>
      </Stack>
    </form>
  );
}
