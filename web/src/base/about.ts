// SPDX-License-Identifier: Apache-2.0
/* The dialog with the licences of what the page contains. It stands in index.html, so its text is in the file as it is. */

export function showAbout(): void {
  const dialog = document.getElementById("about") as HTMLDialogElement;
  document.getElementById("about-close")!.onclick = () => dialog.close();
  dialog.showModal();
}
