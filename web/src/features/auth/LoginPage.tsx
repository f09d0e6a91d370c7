import { Alert, Button, PasswordInput, Stack, TextInput } from "@mantine/core";
import { schemaResolver, useForm } from "@mantine/form";
import { IconAlertTriangle, IconClock } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRouter } from "@tanstack/react-router";
import { useState } from "react";
import { z } from "zod";
import { LoginDocument } from "@/gql/gen";
import { returnPath } from "@/lib/auth";
import { RequestError, request } from "@/lib/graphql";
import { sessionQuery } from "@/lib/session";
import { ErrorPanel } from "@/ui/States";
import { Gate } from "./Gate";

const schema = z.object({
  email: z.email("Enter your e-mail address."),
  password: z.string().min(1, "Enter your password."),
  workspace: z.string(),
});

/** Sign-in; afterwards the visitor gets the requested page. */
export function LoginPage({ to }: { to: string | undefined }) {
  const router = useRouter();
  const qc = useQueryClient();
  const session = useQuery(sessionQuery);
  const [several, setSeveral] = useState(false);
  const form = useForm({
    mode: "uncontrolled",
    initialValues: { email: "", password: "", workspace: "" },
    validate: schemaResolver(schema, { sync: true }),
  });
  const login = useMutation({
    mutationFn: (v: z.infer<typeof schema>) =>
      request(LoginDocument, {
        input: { email: v.email, password: v.password, ...(v.workspace ? { workspace: v.workspace } : {}) },
      }),
    onSuccess: async () => {
      await qc.resetQueries({ queryKey: sessionQuery.queryKey });
      router.history.push(returnPath(to, location.origin));
    },
    onError: (e) => {
      if (e instanceof RequestError && e.field === "workspace") setSeveral(true);
    },
  });
  if (session.data?.instance.needsSetup) return <NotSetUp />;
  return (
    <Gate title="Sign in" lead="Welcome back. Sign in with the e-mail address of your account.">
      <form onSubmit={form.onSubmit((v) => login.mutate(v))} noValidate>
        <Stack>
          {login.error && <Refusal error={login.error} />}
          {session.error && <ErrorPanel error={session.error} retry={() => session.refetch()} />}
          <TextInput
            label="E-mail"
            type="email"
            autoComplete="username"
            key={form.key("email")}
            {...form.getInputProps("email")}
          />
          <PasswordInput
            label="Password"
            autoComplete="current-password"
            key={form.key("password")}
            {...form.getInputProps("password")}
          />
          {several && (
            <TextInput
              label="Workspace"
              description="You belong to several. Give the name or the id of one."
              key={form.key("workspace")}
              {...form.getInputProps("workspace")}
            />
          )}
          <Button type="submit" loading={login.isPending} fullWidth>
            Sign in
          </Button>
        </Stack>
      </form>
    </Gate>
  );
}

function Refusal({ error }: { error: Error }) {
  const e = error instanceof RequestError ? error : undefined;
  if (e?.code === "UNAVAILABLE" || e?.code === "INTERNAL") return <ErrorPanel error={error} />;
  if (e?.code !== "RATE_LIMITED")
    return (
      <Alert color="red" icon={<IconAlertTriangle size={18} aria-hidden />}>
        {error.message}
      </Alert>
    );
  return (
    <Alert color="yellow" title="Too many attempts" icon={<IconClock size={18} aria-hidden />}>
      {error.message}
      {e.retryAfter !== undefined && ` You can try again in ${e.retryAfter} seconds.`}
    </Alert>
  );
}

function NotSetUp() {
  return (
    <Gate
      title="One step left"
      lead="This instance has no administrator yet. When it started, the server printed a one-time link: open that link to set the administrator's password."
    >
      <Alert color="pond">
        The link looks like <code>{`${location.origin}/setup?token=…`}</code>. If it is gone, restart the
        server: it prints a new one.
      </Alert>
    </Gate>
  );
}
