import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ICommandPalette } from '@jupyterlab/apputils';
import { guardIcon } from './icons';
import type { ILanguage } from './language';
import type { GuardModel } from './model';
import type { GuardPanel } from './panel';

export namespace CommandIDs {
  export const open = 'gpu-guard:open';
  export const refresh = 'gpu-guard:refresh';
}

/** What the palette and the menus offer. `open` takes an `owner`, whose row it then shows. */
export function addCommands(
  app: JupyterFrontEnd,
  model: GuardModel,
  panel: GuardPanel,
  palette: ICommandPalette | null,
  { trans }: ILanguage
): void {
  const text = (description: string): { type: string; description: string } => ({ type: 'string', description });
  app.commands.addCommand(CommandIDs.open, {
    label: trans.__('Show GPU Guard'),
    caption: trans.__('Show who holds which GPU'),
    icon: guardIcon,
    describedBy: { args: { type: 'object', properties: { owner: text('Whose row to show, e.g. kernel:<id>') } } },
    execute: args => {
      app.shell.activateById(panel.id);
      if (typeof args.owner === 'string') {
        panel.reveal(args.owner);
      }
    }
  });
  app.commands.addCommand(CommandIDs.refresh, {
    label: trans.__('Refresh GPU Guard'),
    describedBy: { args: { type: 'object', properties: {} } },
    execute: () => model.refresh()
  });
  const category = trans.__('GPU Guard');
  for (const command of Object.values(CommandIDs)) {
    palette?.addItem({ command, category });
  }
}
