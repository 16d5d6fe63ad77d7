import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { GuardModel } from './model';
import type { GuardStatus } from './status';

/** Apply the settings, now and whenever they change. Without a registry, the defaults hold. */
export function followSettings(
  registry: ISettingRegistry | null,
  plugin: string,
  model: GuardModel,
  status: GuardStatus
): void {
  registry?.load(plugin).then(
    settings => {
      const apply = (): void => {
        model.pollSeconds = settings.get('pollSeconds').composite as number;
        status.wanted = settings.get('statusBar').composite as boolean;
      };
      settings.changed.connect(apply);
      apply();
    },
    (error: unknown) => {
      console.warn('jupyter-gpu-guard: the defaults hold, as its settings could not be read.', error);
    }
  );
}
