import { readdirSync, readFileSync } from 'fs';
import { join } from 'path';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { type ITranslator, nullTranslator, type TranslationBundle } from '@jupyterlab/translation';
import ts from 'typescript';
import { bundle, english, speak, swift } from '../language';
import { originText } from '../origin';
import { translated } from '../settings';

const SOURCE = join(__dirname, '..');
const CATALOGUE = join(SOURCE, '../../jupyter_gpu_guard/locale/zh_CN/LC_MESSAGES/jupyter_gpu_guard.json');

type Catalogue = Record<string, string[] | Record<string, string>>;
const catalogue = JSON.parse(readFileSync(CATALOGUE, 'utf8')) as Catalogue;
const entries = Object.entries(catalogue).filter((entry): entry is [string, string[]] => entry[0] !== '');

function files(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap(entry => {
    if (entry.isDirectory()) {
      return entry.name === '__tests__' ? [] : files(join(folder, entry.name));
    }
    return /\.tsx?$/.test(entry.name) ? [join(folder, entry.name)] : [];
  });
}

/** The first argument of every call of `__` and `_n`, or of one of them; `null` where it is not written out. */
function messages(...calls: string[]): (string | null)[] {
  const found: (string | null)[] = [];
  for (const file of files(SOURCE)) {
    const source = ts.createSourceFile(file, readFileSync(file, 'utf8'), ts.ScriptTarget.ES2020, true);
    const visit = (node: ts.Node): void => {
      if (ts.isCallExpression(node) && ts.isPropertyAccessExpression(node.expression)) {
        if ((calls.length > 0 ? calls : ['__', '_n']).includes(node.expression.name.text)) {
          const [first] = node.arguments;
          found.push(ts.isStringLiteral(first) ? first.text : null);
        }
      }
      ts.forEachChild(node, visit);
    };
    visit(source);
  }
  return found;
}

const SCHEMA = JSON.parse(readFileSync(join(SOURCE, '../schema/plugin.json'), 'utf8')) as ISettingRegistry.ISchema;
const PROPERTIES = SCHEMA.properties ?? {};

/** The words of the settings page, as the catalogue has them: with their context. */
const settings = [
  `schema\u0004${SCHEMA.title}`,
  `schema\u0004${SCHEMA.description}`,
  `settings\u0004${String(SCHEMA['jupyter.lab.setting-icon-label'])}`,
  ...Object.values(PROPERTIES).flatMap(({ title, description }) => [
    `settings\u0004${title}`,
    `settings\u0004${description}`
  ])
];

const placeholders = (text: string): string[] => [...new Set(text.match(/%\d/g) ?? [])].sort();

describe('the Chinese catalogue', () => {
  it('is found by a scan of the source that finds something', () => {
    expect(messages().length).toBeGreaterThan(80);
  });

  it('can be checked: every message is written out where it is used', () => {
    expect(messages()).not.toContain(null);
  });

  it('has every message of the source', () => {
    const known = new Set(entries.map(([key]) => key));
    expect([...new Set(messages())].filter(message => message !== null && !known.has(message))).toEqual([]);
  });

  it('has every word of the settings page', () => {
    const known = new Set(entries.map(([key]) => key));
    expect(settings.filter(message => !known.has(message))).toEqual([]);
  });

  it('has no message that is no longer used', () => {
    const used = new Set([...messages(), ...settings]);
    expect(entries.map(([key]) => key).filter(key => !used.has(key))).toEqual([]);
  });

  it.each(entries)('translates "%s" with the same placeholders', (message, translations) => {
    expect(translations[0].trim()).not.toBe('');
    expect(placeholders(translations[0])).toEqual(placeholders(message));
  });

  // JupyterLab takes a plural for translated only where there is more than one form, also in a language with one.
  it('has two equal forms of what is counted, and one of everything else', () => {
    const counted = new Set(messages('_n'));
    for (const [message, translations] of entries) {
      expect([message, translations]).toEqual([message, Array(counted.has(message) ? 2 : 1).fill(translations[0])]);
    }
  });

  it('has the header that JupyterLab needs', () => {
    expect(catalogue['']).toEqual({
      domain: 'jupyter_gpu_guard',
      language: 'zh-CN',
      plural_forms: 'nplurals=1; plural=0;'
    });
  });
});

describe('the settings page', () => {
  const chinese = translated(SCHEMA, bundle(catalogue));

  it('speaks Chinese, and only its words differ', () => {
    expect(chinese.title).toBe('GPU 守护');
    expect(chinese.properties?.statusBar).toEqual({
      ...PROPERTIES.statusBar,
      title: '在状态栏中显示',
      description: '你的笔记本占用的 GPU 显存。'
    });
    expect(JSON.stringify([chinese.title, chinese.description, chinese.properties])).not.toMatch(
      /"(title|description)":"[A-Za-z]/
    );
    expect({ ...chinese, title: 0, description: 0, properties: 0, 'jupyter.lab.setting-icon-label': 0 }).toEqual({
      ...SCHEMA,
      title: 0,
      description: 0,
      properties: 0,
      'jupyter.lab.setting-icon-label': 0
    });
  });

  it('stays as it is in English, and where the server has translated it already', () => {
    expect(translated(SCHEMA, english.trans)).toEqual(SCHEMA);
    expect(translated(chinese, swift(bundle(catalogue)))).toEqual(chinese);
  });
});

describe('where the policy comes from', () => {
  it('is told in words where it is no file', () => {
    expect(originText('built-in defaults', english.trans)).toBe('built-in defaults');
    expect(['built-in defaults', 'c.GpuGuard options'].map(each => originText(each, bundle(catalogue)))).toEqual([
      '内置默认值',
      'c.GpuGuard 选项'
    ]);
    expect(originText('/etc/a.yaml, /etc/b.yaml', english.trans, path => path.slice(5))).toBe('a.yaml, b.yaml');
  });
});

/** An application set to a language for which no pack is installed. */
class FakeTranslator implements ITranslator {
  constructor(readonly languageCode: string) {}
  readonly locale = this.languageCode;
  load(domain: string): TranslationBundle {
    return nullTranslator.load(domain);
  }
}

describe('speak', () => {
  it('uses the bundled catalogue for Chinese without a language pack', async () => {
    const { trans, locale } = await speak(new FakeTranslator('zh_CN'));
    expect(trans.__('GPU memory')).toBe('GPU 显存');
    expect(trans.__('Keep %1 for %2', 'a.ipynb', '1 h')).toContain('1 h');
    for (const count of [1, 3]) {
      const text = trans._n('%1 kernel without GPU memory', '%1 kernels without GPU memory', count);
      expect(text).toMatch(new RegExp(`^${count} .*显存`));
    }
    expect(locale).toBe('zh-CN');
  });

  it('leaves the catalogue as it is, so that it can be loaded twice', () => {
    bundle(catalogue);
    expect(bundle(catalogue).__('Keep')).toBe('保留');
    expect(catalogue['']).toHaveProperty('plural_forms');
  });

  it('speaks English otherwise', async () => {
    expect((await speak(new FakeTranslator('de-DE'))).trans.__('GPU memory')).toBe('GPU memory');
    expect((await speak(null)).trans._n('%1 more is not known', '%1 more are not known', 2)).toBe(
      '2 more are not known'
    );
  });

  it('says the same when it looks each message up only once', () => {
    for (const { trans } of [english, { trans: bundle(catalogue) }]) {
      const quick = swift(trans);
      for (const message of messages().filter(each => each !== null)) {
        const values = ['a', 2, '%1', 'd', 'e'];
        expect(quick.__(message, ...values)).toBe(trans.__(message, ...values));
        expect(quick.__(message, ...values)).toBe(trans.__(message, ...values));
      }
      expect(quick._n('%1 more is not known', '%1 more are not known', 2)).toBe(
        trans._n('%1 more is not known', '%1 more are not known', 2)
      );
    }
  });
});
