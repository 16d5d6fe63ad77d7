import type { JupyterFrontEnd } from '@jupyterlab/application';
import { Dialog, type ICommandPalette, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { LabIcon } from '@jupyterlab/ui-components';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { Widget } from '@lumino/widgets';
import type { GuardActions } from './actions';
import { guardIcon } from './icons';
import type { ILanguage } from './language';
import type { GuardModel } from './model';
import type { Remedy } from './remedies';
import type { IRow } from './rows';
import { rowOf, type Targets } from './target';
import type { WireHolder } from './wire';

export namespace CommandIDs {
  export const open = 'gpu-guard:open';
  export const openHistory = 'gpu-guard:open-history';
  export const refresh = 'gpu-guard:refresh';
  export const keep = 'gpu-guard:keep';
  export const release = 'gpu-guard:release';
  export const park = 'gpu-guard:park';
  export const resume = 'gpu-guard:resume';
  export const shutDown = 'gpu-guard:shut-down';
}

/** What the commands rest on. */
export interface ICommandDoors {
  readonly model: GuardModel;
  readonly actions: GuardActions;
  readonly targets: Targets;
  /** Bring the panel into sight, and the row of `owner`. */
  readonly show: (owner?: string) => void;
  readonly openHistory: () => void;
}

interface IAsk {
  readonly command: string;
  readonly label: string;
  readonly caption: string;
  /** Whether this can be asked for now. */
  readonly suits: (holder: WireHolder, row: IRow) => boolean;
  readonly execute: (row: IRow, args: ReadonlyPartialJSONObject) => Promise<void>;
}

/**
 * What the palette and the menus offer. Those about an owner take `owner` or `path`, or `from`: the place of the click.
 * With neither they are about the notebook or console in front. Where there is nobody, they are not shown.
 */
export function addCommands(
  app: JupyterFrontEnd,
  doors: ICommandDoors,
  palette: ICommandPalette | null,
  language: ILanguage
): void {
  const { trans } = language;
  const { model, actions, targets } = doors;
  const add = (
    command: string,
    text: { label: string; caption: string; icon?: LabIcon },
    execute: (args: ReadonlyPartialJSONObject) => unknown
  ): void => {
    app.commands.addCommand(command, { ...text, describedBy: { args: ARGUMENTS }, execute });
  };
  add(
    CommandIDs.open,
    { label: trans.__('Show GPU Guard'), caption: trans.__('Show who holds which GPU'), icon: guardIcon },
    args => {
      doors.show(typeof args.owner === 'string' ? args.owner : undefined);
    }
  );
  add(
    CommandIDs.openHistory,
    {
      label: trans.__('Show GPU history'),
      caption: trans.__('GPU memory and compute of the last hour'),
      icon: guardIcon
    },
    doors.openHistory
  );
  add(CommandIDs.refresh, { label: trans.__('Refresh GPU Guard'), caption: trans.__('Look at the GPUs now') }, () =>
    model.refresh()
  );

  const asked = (ask: IAsk, args: ReadonlyPartialJSONObject): IRow | null => {
    const holder = targets.holder(args);
    const row = holder && rowOf(holder.owner, model, language);
    return holder && row && ask.suits(holder, row) ? row : null;
  };
  const offers = (what: 'release' | 'park' | 'resume' | 'shutdown') => (holder: WireHolder, row: IRow) =>
    !row.ending && (holder.offers ?? []).includes(what);
  const asks: IAsk[] = [
    {
      command: CommandIDs.keep,
      label: trans.__('Keep on GPU…'),
      caption: trans.__('Say that you still need it, and for how long'),
      suits: (_, row) => row.keepChoices.length > 0,
      execute: async (row, args) => {
        const seconds = typeof args.seconds === 'number' ? args.seconds : await howLong(row, language);
        if (seconds !== null) {
          await actions.keep(row, seconds);
        }
      }
    },
    ...(['release', 'park', 'resume'] as const).map(remedy => ({
      ...wordsOf(remedy, trans),
      command: CommandIDs[remedy],
      suits: offers(remedy),
      execute: (row: IRow) => actions.remedy(row, remedy)
    })),
    {
      command: CommandIDs.shutDown,
      label: trans.__('Shut down and free GPU memory'),
      caption: trans.__('End it, and give its GPU memory back'),
      suits: offers('shutdown'),
      execute: row => actions.shutDown(row)
    }
  ];
  for (const ask of asks) {
    app.commands.addCommand(ask.command, {
      label: ask.label,
      caption: ask.caption,
      icon: args => (args.from === undefined ? undefined : guardIcon),
      describedBy: { args: ARGUMENTS },
      isEnabled: args => asked(ask, args) !== null,
      isVisible: args => asked(ask, args) !== null,
      execute: async args => {
        const row = asked(ask, args);
        if (row !== null) {
          await ask.execute(row, args);
        }
      }
    });
  }
  const category = trans.__('GPU Guard');
  for (const command of [
    CommandIDs.open,
    CommandIDs.openHistory,
    CommandIDs.refresh,
    ...asks.map(ask => ask.command)
  ]) {
    palette?.addItem({ command, category });
  }
}

const text = (description: string): { type: 'string'; description: string } => ({ type: 'string', description });

const ARGUMENTS = {
  type: 'object',
  properties: {
    owner: text('Whom it is about, e.g. kernel:<id>'),
    path: text('The notebook whose kernel it is about'),
    from: text('The place of the click that it is about: tab, browser or running'),
    seconds: { type: 'number', description: 'For how long to keep it' }
  }
};

/** For how long, of what the rule allows; null: the person thought better of it. */
async function howLong(row: IRow, { trans }: ILanguage): Promise<number | null> {
  const { button, value } = await showDialog({
    title: trans.__('Keep %1', row.title),
    body: new HowLong(trans.__('For how long is it needed?'), row.keepChoices),
    focusNodeSelector: 'select',
    buttons: [Dialog.cancelButton({ label: trans.__('Cancel') }), Dialog.okButton({ label: trans.__('Keep') })]
  });
  return button.accept ? value : null;
}

/** A choice of durations, in seconds. JupyterLab's own question has a list without a name for a screen reader. */
class HowLong extends Widget implements Dialog.IBodyWidget<number> {
  constructor(question: string, choices: IRow['keepChoices']) {
    super();
    this.select = document.createElement('select');
    this.select.append(...choices.map(({ label, seconds }) => new Option(label, String(seconds))));
    const label = document.createElement('label');
    label.append(question, this.select);
    this.node.append(label);
  }

  getValue(): number {
    return Number(this.select.value);
  }

  private readonly select: HTMLSelectElement;
}

function wordsOf(remedy: Remedy, trans: TranslationBundle): { label: string; caption: string } {
  switch (remedy) {
    case 'release':
      return {
        label: trans.__('Release GPU memory'),
        caption: trans.__('Give back what its frameworks keep for later')
      };
    case 'park':
      return {
        label: trans.__('Park on the host'),
        caption: trans.__('Move its GPU memory to the memory of the host')
      };
    case 'resume':
      return { label: trans.__('Resume on GPU'), caption: trans.__('Bring its memory back to the GPU.') };
  }
}
