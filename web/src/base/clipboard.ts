// SPDX-License-Identifier: Apache-2.0

/** Puts a text on the clipboard, in the old way where pages from folders do not get the new one. */
export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy"); // eslint-disable-line @typescript-eslint/no-deprecated -- nothing else works there
    area.remove();
  }
}
