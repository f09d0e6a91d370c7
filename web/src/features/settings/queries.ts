import { PlacesDocument, SettingsDocument } from "@/gql/gen";
import { gql } from "@/lib/graphql";

export const settingsQuery = gql(SettingsDocument, {});

/** The registered provider and storage. */
export const placesQuery = gql(PlacesDocument, {});
