import { LabIcon } from '@jupyterlab/ui-components';

const chip = `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 24 24">
  <path class="jp-icon3" fill="#616161" fill-rule="evenodd" d="M9 2v2H7a3 3 0 0 0-3 3v2H2v2h2v2H2v2h2v2a3 3 0 0 0 3 3h2v2h2v-2h2v2h2v-2h2a3 3 0 0 0 3-3v-2h2v-2h-2v-2h2V9h-2V7a3 3 0 0 0-3-3h-2V2h-2v2h-2V2H9zM7 6h10a1 1 0 0 1 1 1v10a1 1 0 0 1-1 1H7a1 1 0 0 1-1-1V7a1 1 0 0 1 1-1zm8.3 3.3L11 13.6l-2.3-2.3-1.4 1.4 3.7 3.7 5.7-5.7-1.4-1.4z"/>
</svg>`;

/** A chip that is looked after. */
export const guardIcon = new LabIcon({ name: 'jupyter-gpu-guard:chip', svgstr: chip });
