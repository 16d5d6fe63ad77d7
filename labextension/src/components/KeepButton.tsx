import { CommandRegistry } from '@lumino/commands';
import { Menu } from '@lumino/widgets';
import type { TranslationBundle } from '@jupyterlab/translation';
import React from 'react';
import { shorten } from '../format';
import type { IKeepChoice } from '../rows';

const LONGEST_NAME = 40;

interface IProps {
  readonly title: string;
  readonly choices: readonly IKeepChoice[];
  readonly disabled: boolean;
  readonly onChoosing: (open: boolean) => void;
  readonly onKeep: (seconds: number) => void;
  readonly trans: TranslationBundle;
}

/** A button that asks for how long. */
export function KeepButton({ title, choices, disabled, onChoosing, onKeep, trans }: IProps): React.JSX.Element {
  const open = (event: React.MouseEvent<HTMLButtonElement>): void => {
    const button = event.currentTarget;
    const { left, bottom } = button.getBoundingClientRect();
    const menu = keepMenu(title, choices, onKeep, trans);
    menu.aboutToClose.connect(() => {
      onChoosing(false);
      if (menu.node.contains(document.activeElement)) {
        button.focus({ preventScroll: true }); // with the menu, the focus would be gone
      }
    });
    onChoosing(true);
    menu.open(left, bottom);
  };
  return (
    <button
      type="button"
      className="jp-GpuGuard-Button"
      aria-label={trans.__('Keep %1', title)}
      aria-haspopup="menu"
      title={trans.__('Say that you still need it, and for how long')}
      disabled={disabled || choices.length === 0}
      onClick={open}
    >
      {trans.__('Keep')} <span aria-hidden="true">▾</span>
    </button>
  );
}

function keepMenu(
  title: string,
  choices: readonly IKeepChoice[],
  onKeep: (seconds: number) => void,
  trans: TranslationBundle
): Menu {
  const name = shorten(title, LONGEST_NAME);
  const commands = new CommandRegistry();
  const menu = new Menu({ commands });
  for (const { seconds, label } of choices) {
    const command = `keep-${seconds}`;
    commands.addCommand(command, {
      label: trans.__('Keep %1 for %2', name, label),
      execute: () => {
        onKeep(seconds);
      }
    });
    menu.addItem({ command });
  }
  // A menu closes before it runs its command, so it may go only after that.
  menu.aboutToClose.connect(() => {
    setTimeout(() => {
      menu.dispose();
    });
  });
  return menu;
}
