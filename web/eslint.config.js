// SPDX-License-Identifier: Apache-2.0
import eslint from "typescript-eslint";

export default eslint.config(
  { ignores: ["build/", "node_modules/"] },
  {
    files: ["src/**/*.ts", "src/**/*.tsx"],
    extends: [...eslint.configs.strictTypeChecked, ...eslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      // Indices are checked where they are made; the compiler cannot know.
      "@typescript-eslint/no-non-null-assertion": "off",
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      // Handlers of events may be asynchronous: what they fail with is shown by the page's own state.
      "@typescript-eslint/no-misused-promises": ["error", { checksVoidReturn: { attributes: false } }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      // What is untrusted is text, never markup.
      "no-restricted-syntax": [
        "error",
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: "text, never markup" },
        {
          selector: "MemberExpression[property.name=/^(innerHTML|outerHTML|insertAdjacentHTML)$/]",
          message: "text, never markup",
        },
      ],
    },
  },
);
