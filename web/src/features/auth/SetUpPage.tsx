import { Alert, Anchor, Button, PasswordInput, Progress, Stack, Text, TextInput } from "@mantine/core";
import { schemaResolver, type UseFormReturnType, useForm } from "@mantine/form";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { SetUpDocument } from "@/gql/gen";
import { isCode, RequestError, request } from "@/lib/graphql";
import { sessionQuery } from "@/lib/session";
import { Gate } from "./Gate";
import { minimum, type SetUpValues, setUpSchema, setUpTexts } from "./setup";

/**
 * The page of a one-time link: the first administrator's account, or an invited member's new or
 * existing password.
 */
export function SetUpPage({ token, email }: { token: string | undefined; email: string | undefined }) {
  const navigate = useNavigate();
  const qc = useQueryClient();
  const { data: session } = useQuery(sessionQuery);
  const [account, setAccount] = useState(false);
  const [length, setLength] = useState(0);
  const form = useForm<SetUpValues>({
    mode: "uncontrolled",
    initialValues: { account: false, email: email ?? "", name: "", password: "", again: "" },
    validate: schemaResolver(setUpSchema, { sync: true }),
    onValuesChange: (v) => setLength([...v.password].length),
  });
  const show = (has: boolean) => {
    form.setFieldValue("account", has);
    form.clearErrors();
    setAccount(has);
  };
  const setUp = useMutation({
    mutationFn: (v: SetUpValues) =>
      request(SetUpDocument, {
        input: {
          token: token ?? "",
          email: v.email,
          password: v.password,
          ...(v.name && !v.account ? { name: v.name } : {}),
        },
      }),
    onSuccess: async () => {
      await qc.resetQueries({ queryKey: sessionQuery.queryKey });
      await navigate({ to: "/", replace: true });
    },
    onError: (e) => {
      if (isCode(e, "UNAUTHENTICATED")) show(true);
      if (e instanceof RequestError && e.field && e.field in form.getValues())
        form.setFieldError(e.field, e.message);
    },
  });
  const first = session?.instance.needsSetup ?? true;
  if (!token) return <NoToken />;
  const { title, lead, action } = setUpTexts(first, account);
  return (
    <Gate title={title} lead={lead}>
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
          {account ? (
            <PasswordInput
              label="Password"
              autoComplete="current-password"
              withAsterisk
              key={form.key("password")}
              {...form.getInputProps("password")}
            />
          ) : (
            <NewAccount form={form} length={length} />
          )}
          <Button type="submit" loading={setUp.isPending} fullWidth>
            {action}
          </Button>
          {!first && (
            <Text size="sm">
              {account ? "You have no account yet? " : "You have an account already? "}
              <Anchor component="button" type="button" size="sm" onClick={() => show(!account)}>
                {account ? "Set a first password." : "Enter its password."}
              </Anchor>
            </Text>
          )}
        </Stack>
      </form>
    </Gate>
  );
}

function NewAccount({ form, length }: { form: UseFormReturnType<SetUpValues>; length: number }) {
  return (
    <>
      <TextInput
        label="Name"
        description="How the members list shows you."
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
    </>
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
