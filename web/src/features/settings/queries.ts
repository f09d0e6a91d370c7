import { SettingsDocument } from "@/gql/gen";
import { gql } from "@/lib/graphql";

export const settingsQuery = gql(SettingsDocument, {});
