import { Gettext, type ITranslator, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';

// One catalogue, used twice: the server offers it where a language pack is installed, and the bundle carries it for
// people who chose Chinese without one.
type Catalogue = Record<string, string[] | Record<string, string>>;

const DOMAIN = 'jupyter_gpu_guard';

/** How we speak to this person: their words, and their way to write dates. */
export interface ILanguage {
  readonly trans: TranslationBundle;
  readonly locale: string | undefined;
  /** By which names the server calls this person; not there where that is not known. */
  readonly names?: () => readonly string[];
}

/** The language the application is set to; English where it has none of ours. */
export async function speak(translator: ITranslator | null): Promise<ILanguage> {
  const code = (translator?.languageCode ?? 'en').replace('_', '-');
  const trans = (translator ?? nullTranslator).load(DOMAIN);
  const locale = code === 'en' ? undefined : code;
  if (code.toLowerCase().startsWith('zh') && trans.__('GPU memory') === 'GPU memory') {
    const catalogue = await import('../../jupyter_gpu_guard/locale/zh_CN/LC_MESSAGES/jupyter_gpu_guard.json');
    return { trans: swift(bundle(catalogue.default)), locale };
  }
  return { trans: swift(trans), locale };
}

/** English as written in the source. */
export const english: ILanguage = { trans: nullTranslator.load(DOMAIN), locale: 'en' };

/** A catalogue in the server's form as a bundle of translation functions. */
export function bundle(catalogue: Catalogue): TranslationBundle {
  const { language, plural_forms, ...header } = catalogue[''] as Record<string, string>;
  const gettext = new Gettext({ domain: DOMAIN, locale: language });
  const adapted = { ...catalogue, '': { ...header, language, domain: DOMAIN, pluralForms: plural_forms } };
  gettext.loadJSON(adapted, DOMAIN);
  return gettext;
}

const SLOTS = ['%1', '%2', '%3', '%4', '%5', '%6', '%7', '%8', '%9'];

/** `trans`, which looks each message up once: hundreds of rows say the same few things again with every report. */
export function swift(trans: TranslationBundle): TranslationBundle {
  const known = new Map<string, string[]>();
  const __ = (message: string, ...values: unknown[]): string => {
    let parts = known.get(message);
    if (parts === undefined) {
      parts = trans.gettext(message, ...SLOTS).split(/%([1-9])/); // text, number, text, number, text
      known.set(message, parts);
    }
    let text = parts[0];
    for (let index = 1; index < parts.length; index += 2) {
      text += `${String(values[Number(parts[index]) - 1])}${parts[index + 1]}`;
    }
    return text;
  };
  return Object.assign(Object.create(trans) as TranslationBundle, { __ });
}
