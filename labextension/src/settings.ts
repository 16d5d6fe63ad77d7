import type { ISettingRegistry } from '@jupyterlab/settingregistry';

/** What a person can set. The defaults are those of `schema/plugin.json`. */
export interface IChoices {
  /** Between two looks while somebody watches. */
  readonly pollSeconds: number;
  readonly statusBar: boolean;
  readonly toolbarBadge: boolean;
  /** Notifications of news and hints. A warning of a loss always comes. */
  readonly notifications: boolean;
}

export const DEFAULT_CHOICES: IChoices = { pollSeconds: 5, statusBar: true, toolbarBadge: true, notifications: true };

/** Apply the settings, now and whenever they change. Without a registry, the defaults hold. */
export function followSettings(
  registry: ISettingRegistry | null,
  plugin: string,
  apply: (choices: IChoices) => void
): void {
  registry?.load(plugin).then(
    settings => {
      const follow = (): void => {
        apply({ ...DEFAULT_CHOICES, ...(settings.composite as Partial<IChoices>) });
      };
      settings.changed.connect(follow);
      follow();
    },
    (error: unknown) => {
      console.warn('jupyter-gpu-guard: the defaults hold, as its settings could not be read.', error);
    }
  );
}
