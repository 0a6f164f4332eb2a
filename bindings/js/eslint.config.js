// SPDX-License-Identifier: Apache-2.0
import eslint from "typescript-eslint";

export default eslint.config(
  { ignores: ["dist/", "build/", "node_modules/", "src/generated/"] },
  {
    files: ["src/**/*.ts"],
    extends: [...eslint.configs.strictTypeChecked, ...eslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      // Indices are checked where they are made; the compiler cannot know.
      "@typescript-eslint/no-non-null-assertion": "off",
      // Numbers and Integers are what messages are made of.
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      // What an untrusted file may say is looked at, whatever its type promises.
      "@typescript-eslint/no-unnecessary-condition": "off",
      "@typescript-eslint/prefer-nullish-coalescing": "off",
    },
  },
);
