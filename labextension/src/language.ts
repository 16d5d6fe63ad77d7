import { Gettext, type ITranslator, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';

// One catalogue, used twice: the server offers it where a language pack is installed, and the bundle carries it for
// people who chose Chinese without one.
type Catalogue = Record<string, string[] | Record<string, string>>;

const DOMAIN = 'jupyter_gpu_guard';

/** How we speak to this person: their words, and their way to write dates. */
export interface ILanguage {
  readonly trans: TranslationBundle;
  readonly locale: string | undefined;
}

/** The language the application is set to; English where it has none of ours. */
export async function speak(translator: ITranslator | null): Promise<ILanguage> {
  const code = (translator?.languageCode ?? 'en').replace('_', '-');
  const trans = (translator ?? nullTranslator).load(DOMAIN);
  const locale = code === 'en' ? undefined : code;
  if (code.toLowerCase().startsWith('zh') && trans.__('GPU memory') === 'GPU memory') {
    const catalogue = await import('../../jupyter_gpu_guard/locale/zh_CN/LC_MESSAGES/jupyter_gpu_guard.json');
    return { trans: bundle(catalogue.default), locale };
  }
  return { trans, locale };
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
