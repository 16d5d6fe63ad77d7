import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import type { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import type { Widget } from '@lumino/widgets';
import type { ILanguage } from './language';
import { type IRow, rowsOf } from './rows';
import type { IGpuGuard } from './tokens';
import type { WireHolder } from './wire';

/** Where a command was called from: it tells what it is about. None: the palette or a shortcut. */
export type Place = 'tab' | 'browser' | 'running';

/** Finds the owner that a command is about. */
export class Targets {
  constructor(
    private readonly app: JupyterFrontEnd,
    private readonly guard: IGpuGuard,
    private readonly browsers: IFileBrowserFactory | null
  ) {}

  /** Whom `args` name: an `owner`, a `path`, or what was clicked at the place `from`. Null: nobody of the report. */
  holder(args: ReadonlyPartialJSONObject): WireHolder | null {
    if (typeof args.owner === 'string') {
      return this.byOwner(args.owner);
    }
    if (typeof args.path === 'string') {
      return this.byPath(args.path);
    }
    switch (args.from as Place | undefined) {
      case 'running':
        return this.byOwner(this.clicked('context'));
      case 'tab':
        return this.byWidget(this.widget(this.clicked('id')));
      case 'browser':
        return this.byPath(this.chosenFile());
      default:
        return this.byWidget(this.app.shell.currentWidget);
    }
  }

  private byOwner(owner: string | undefined): WireHolder | null {
    return this.guard.report?.holders.find(holder => holder.owner === owner) ?? null;
  }

  private byPath(path: string | undefined): WireHolder | null {
    const holders = this.guard.report?.holders ?? [];
    return holders.find(holder => holder.kind === 'kernel' && holder.notebook === path) ?? null;
  }

  private byWidget(widget: Widget | null): WireHolder | null {
    const owner = ownerOf(widget);
    return owner === null ? null : this.byOwner(owner);
  }

  /** What the element under the last right click, or one around it, says of itself. */
  private clicked(name: 'context' | 'id'): string | undefined {
    return this.app.contextMenuHitTest(node => (node.dataset[name] ?? '') !== '')?.dataset[name];
  }

  private widget(id: string | undefined): Widget | null {
    for (const widget of this.app.shell.widgets('main')) {
      if (widget.id === id) {
        return widget;
      }
    }
    return null;
  }

  private chosenFile(): string | undefined {
    const browser = this.browsers?.tracker.currentWidget;
    const path = browser ? [...browser.selectedItems()][0]?.path : undefined;
    return path === undefined ? undefined : this.app.serviceManager.contents.localPath(path);
  }
}

/** A notebook has its session in its context, a console has it itself. */
interface IMayHaveSession {
  readonly sessionContext?: ISessionContext;
  readonly context?: { readonly sessionContext?: ISessionContext };
}

/** The owner behind a notebook or console; null: it has no kernel now. */
export function ownerOf(widget: Widget | null): string | null {
  const place: (Widget & IMayHaveSession) | null = widget;
  const session = place?.sessionContext ?? place?.context?.sessionContext;
  const id = session?.session?.kernel?.id;
  return id === undefined ? null : `kernel:${id}`;
}

/** The row of `owner` as the panel shows it; null: nobody of the report. */
export function rowOf(owner: string, guard: IGpuGuard, language: ILanguage): IRow | null {
  const { report } = guard;
  const holder = report?.holders.find(candidate => candidate.owner === owner);
  return report && holder
    ? (rowsOf(() => true, report, guard.now(), language, new Set()).find(row => row.owner === owner) ?? null)
    : null;
}
