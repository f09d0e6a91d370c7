import { useEffect } from "react";

export type FaviconState = "" | "-running" | "-failed" | "-success";

/** Shows a state in the browser's tab: its icon and its title. */
export function useTab(title: string, icon: FaviconState = "") {
  useEffect(() => {
    document.title = title ? `${title} · Millpond` : "Millpond";
  }, [title]);
  useEffect(() => {
    const link = document.querySelector<HTMLLinkElement>("#favicon");
    if (!link) return;
    link.href = `/favicon${icon}.svg`;
    return () => {
      link.href = "/favicon.svg";
    };
  }, [icon]);
}
