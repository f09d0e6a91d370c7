import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { tanstackRouter } from "@tanstack/router-plugin/vite";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

/** Empties dist before a build, but for .gitkeep: `go build` needs the folder to exist. */
function clean(): Plugin {
  let out = "";
  return {
    name: "clean",
    apply: "build",
    configResolved: (c) => {
      out = c.build.outDir;
    },
    buildStart: () => {
      for (const f of readdirSync(out)) if (f !== ".gitkeep") rmSync(join(out, f), { recursive: true });
    },
  };
}

const compress = (b: Buffer) =>
  brotliCompressSync(b, {
    params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_SIZE_HINT]: b.length },
  });

/** Puts a .br and a .gz beside each text file that is worth it; the server never compresses. */
function precompress(): Plugin {
  return {
    name: "precompress",
    apply: "build",
    writeBundle: ({ dir = "" }) => {
      for (const f of readdirSync(join(dir, "assets"))) {
        if (!/\.(js|css|svg|json)$/.test(f)) continue;
        const path = join(dir, "assets", f);
        const b = readFileSync(path);
        if (b.length < 1400) continue;
        writeFileSync(`${path}.br`, compress(b));
        writeFileSync(`${path}.gz`, gzipSync(b, { level: 9 }));
      }
    },
  };
}

/** Where `vite` finds a running millpond while the console is being worked on. */
const target = process.env.MILLPOND_URL ?? "http://127.0.0.1:8080";

export default defineConfig({
  plugins: [
    tanstackRouter(), // its settings are in tsr.config.json
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
