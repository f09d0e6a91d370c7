import { Alert, Button, PasswordInput, Progress, Stack, Text, TextInput } from "@mantine/core";
import { schemaResolver, useForm } from "@mantine/form";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { z } from "zod";
import { SetUpDocument } from "@/gql/gen";
import { RequestError, request } from "@/lib/graphql";
import { sessionQuery } from "@/lib/session";
import { Gate } from "./Gate";

const minimum = 12;
const schema = z
  .object({
    email: z.email("Enter an e-mail address, such as ada@example.org."),
    name: z.string(),
    password: z
      .string()
      .min(minimum, `Use at least ${minimum} characters; a few words are easy to remember.`),
    again: z.string(),
  })
  .refine((v) => v.password === v.again, { path: ["again"], message: "This is not the same password." });

/** From a one-time link: the first administrator's account, or an invited member's password. */
export function SetUpPage({ token, email }: { token: string | undefined; email: string | undefined }) {
  const navigate = useNavigate();
  const qc = useQueryClient();
  const { data: session } = useQuery(sessionQuery);
  const [length, setLength] = useState(0);
  const form = useForm({
    mode: "uncontrolled",
    initialValues: { email: email ?? "", name: "", password: "", again: "" },
    validate: schemaResolver(schema, { sync: true }),
    onValuesChange: (v) => setLength([...v.password].length),
  });
  const setUp = useMutation({
    mutationFn: (v: z.infer<typeof schema>) =>
      request(SetUpDocument, {
        input: {
          token: token ?? "",
          email: v.email,
          password: v.password,
          ...(v.name ? { name: v.name } : {}),
        },
      }),
    onSuccess: async () => {
      await qc.resetQueries({ queryKey: sessionQuery.queryKey });
      await navigate({ to: "/", replace: true });
    },
    onError: (e) => {
      if (e instanceof RequestError && e.field && e.field in form.getValues())
        form.setFieldError(e.field, e.message);
    },
  });
  const first = session?.instance.needsSetup ?? true;
  if (!token) return <NoToken />;
  return (
    <Gate
      title={first ? "Create the administrator" : "Set your password"}
      lead={
        first
          ? "This is the first start. The account you make now manages members, keys and quotas. Nothing else needs to be configured."
          : "You were invited to this workspace. Use the e-mail address of the invitation."
      }
    >
      <form onSubmit={form.onSubmit((v) => setUp.mutate(v))} noValidate>
        <Stack>
          {setUp.error && (
            <Alert color="red" icon={<IconAlertTriangle size={18} aria-hidden />}>
              {setUp.error.message}
            </Alert>
          )}
          <TextInput
            label="E-mail"
            type="email"
            autoComplete="username"
            withAsterisk
            key={form.key("email")}
            {...form.getInputProps("email")}
          />
          <TextInput
            label="Name"
            description="How others see you on runs you start."
            autoComplete="name"
            key={form.key("name")}
            {...form.getInputProps("name")}
          />
          <div>
            <PasswordInput
              label="Password"
              autoComplete="new-password"
              withAsterisk
              key={form.key("password")}
              {...form.getInputProps("password")}
            />
            <Progress
              value={Math.min(100, (length / minimum) * 100)}
              color={length >= minimum ? "green" : "yellow"}
              size={3}
              mt={6}
              aria-label="Length of the password"
            />
            <Text size="xs" c="dimmed" mt={4} aria-live="polite">
              {length >= minimum
                ? "Long enough."
                : `At least ${minimum} characters${length ? `, ${minimum - length} more` : ""}.`}
            </Text>
          </div>
          <PasswordInput
            label="Password, once more"
            autoComplete="new-password"
            withAsterisk
            key={form.key("again")}
            {...form.getInputProps("again")}
          />
          <Button type="submit" loading={setUp.isPending} fullWidth>
            {first ? "Create the administrator" : "Set the password"}
          </Button>
        </Stack>
      </form>
    </Gate>
  );
}

function NoToken() {
  return (
    <Gate
      title="This link is not complete"
      lead="A set-up link ends in ?token= and a long code, and works once."
    >
      <Stack>
        <Text size="sm">
          Copy the whole link: the one the server printed at its start, or the one an administrator sent you.
        </Text>
        <Button variant="default" renderRoot={(p) => <Link to="/login" {...p} />}>
          Go to sign-in
        </Button>
      </Stack>
    </Gate>
  );
}
