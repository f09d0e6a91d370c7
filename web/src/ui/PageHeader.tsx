import { Breadcrumbs, Group, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";

/** A page's title, context and actions. */
export function PageHeader({
  title,
  trail,
  meta,
  description,
  actions,
}: {
  title: ReactNode;
  trail?: ReactNode[];
  meta?: ReactNode;
  description?: ReactNode;
  actions?: ReactNode;
}) {
  return (
    <header className="page-header">
      <div className="page-header-text">
        {trail && (
          <Breadcrumbs separator="/" separatorMargin={6} fz="xs" mb={2}>
            {trail}
          </Breadcrumbs>
        )}
        <Group gap="sm" wrap="wrap">
          <Title order={1} size="h3" className="page-title">
            {title}
          </Title>
          {meta}
        </Group>
        {description && (
          <Text size="sm" c="dimmed" mt={2}>
            {description}
          </Text>
        )}
      </div>
      {actions && (
        <Group gap="xs" className="page-actions">
          {actions}
        </Group>
      )}
    </header>
  );
}
