import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import type { TranslationBundle } from '@jupyterlab/translation';

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

type Schema = ISettingRegistry.ISchema;
const ICON_LABEL = 'jupyter.lab.setting-icon-label';

/**
 * The schema with its words in the language of `trans`, under the contexts that JupyterLab's server uses. That server
 * takes them only from language packs, and those do not know us.
 */
export function translated(schema: Schema, trans: TranslationBundle): Schema {
  const say = (context: string, text: string | undefined): string | undefined =>
    text === undefined ? undefined : trans.pgettext(context, text);
  const properties = Object.entries(schema.properties ?? {}).map(([name, property]) => [
    name,
    { ...property, title: say('settings', property.title), description: say('settings', property.description) }
  ]);
  return {
    ...schema,
    title: say('schema', schema.title),
    description: say('schema', schema.description),
    [ICON_LABEL]: say('settings', schema[ICON_LABEL]),
    properties: Object.fromEntries(properties) as Schema['properties']
  };
}

/**
 * Apply the settings, now and whenever they change, and let their page speak the language of `trans`. Without a
 * registry, the defaults hold.
 */
export function followSettings(
  registry: ISettingRegistry | null,
  plugin: string,
  trans: TranslationBundle,
  apply: (choices: IChoices) => void
): void {
  registry?.transform(plugin, { fetch: fetched => ({ ...fetched, schema: translated(fetched.schema, trans) }) });
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
