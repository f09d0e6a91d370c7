import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { tanstackRouter } from "@tanstack/router-plugin/vite";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

/** Empties dist before a build, but for .gitkeep: `go build` needs the folder to exist. */
const clean = (): Plugin => ({
  name: "clean",
  apply: "build",
  buildStart() {
    for (const f of readdirSync("dist")) {
      if (f !== ".gitkeep") rmSync(join("dist", f), { recursive: true });
    }
  },
});

const precompress = (): Plugin => ({
  name: "precompress",
  apply: "build",
  closeBundle() {
    for (const f of readdirSync("dist/assets")) {
      if (!/\.(js|css|svg|json)$/.test(f)) continue;
      const p = join("dist/assets", f);
      const b = readFileSync(p);
      if (b.length < 1400) continue;
      writeFileSync(
        `${p}.br`,
        brotliCompressSync(b, {
          params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: b.length },
        }),
      );
      writeFileSync(`${p}.gz`, gzipSync(b, { level: 9 }));
    }
  },
});

/** Where `vite` finds a running millpond while the console is being worked on. */
const target = process.env.MILLPOND_URL ?? "http://127.0.0.1:8080";

export default defineConfig({
  plugins: [
    tanstackRouter({
      target: "react",
      autoCodeSplitting: true,
      routesDirectory: "src/routes",
      generatedRouteTree: "src/routeTree.gen.ts",
      quoteStyle: "double",
      semicolons: true,
    }),
    react(),
    clean(),
    precompress(),
  ],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  html: { cspNonce: "__CSP_NONCE__" },
  worker: { format: "es" },
  build: {
    emptyOutDir: false,
    target: "es2022",
    sourcemap: false,
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 700,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            {
              name: "react",
              test: /node_modules[\\/](react|react-dom|scheduler|use-sync-external-store)[\\/]/,
              priority: 30,
            },
            {
              name: "tanstack",
              test: /node_modules[\\/]@tanstack[\\/](react-router|router-core|history|react-query|query-core|react-store|store)[\\/]/,
              priority: 20,
            },
            {
              name: "mantine",
              test: /node_modules[\\/](@mantine[\\/](core|hooks|modals|notifications|spotlight|store|form)|@floating-ui|clsx|react-remove-scroll|react-number-format|react-textarea-autosize|@tabler)[\\/]/,
              priority: 20,
            },
            {
              name: "codemirror",
              test: /node_modules[\\/](@codemirror|@lezer|style-mod|w3c-keyname|crelt)[\\/]/,
              priority: 20,
            },
            {
              name: "xyflow",
              test: /node_modules[\\/](@xyflow|@dagrejs|d3-[a-z]+|zustand|classcat)[\\/]/,
              priority: 20,
            },
          ],
        },
      },
    },
  },
  server: {
    port: 5173,
    proxy: {
      "/graphql": { target, ws: true, changeOrigin: true, rewriteWsOrigin: true },
      "/api": { target, changeOrigin: true },
    },
  },
});
