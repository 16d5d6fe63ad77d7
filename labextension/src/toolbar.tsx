import type { IToolbarWidgetRegistry } from '@jupyterlab/apputils';
import type { DocumentWidget } from '@jupyterlab/docregistry';
import { ReactWidget } from '@jupyterlab/ui-components';
import { type ReadonlyJSONValue, JSONExt } from '@lumino/coreutils';
import React from 'react';
import { bytes } from './format';
import type { ILanguage } from './language';
import type { GuardModel } from './model';
import { holdsSomething, titleOf } from './owners';
import { marked, reading } from './readings';
import { coming, doing, toneOf } from './standing';
import { ownerOf } from './target';
import { labelled } from './words';
import type { WireReport } from './wire';

/** What the badge of one notebook says. */
export interface IBadge {
  readonly owner: string;
  readonly tone: string;
  readonly text: string;
  readonly title: string;
}

/** The badge of `owner`; null: it holds nothing, and there is nothing to say. */
export function badgeOf(
  owner: string | null,
  report: WireReport | null,
  now: number,
  language: ILanguage
): IBadge | null {
  const { trans } = language;
  const holder = report?.holders.find(candidate => candidate.owner === owner);
  if (!report || !holder || !(holdsSomething(holder, report) || holder.state === 'parked')) {
    return null;
  }
  const known = reading(holder.memory_bytes, holder.memory_bytes_unknown, bytes, trans);
  const memory = marked(known, holder.estimated === true, trans);
  const label = (text: string): string => labelled(text, report.simulated, trans);
  const says = [doing(holder, trans), coming(holder, report, now, language)].filter(text => text !== null);
  return {
    owner: holder.owner,
    tone: toneOf(holder, report),
    text: trans.__('GPU %1', memory.text),
    title: [
      label(trans.__('GPU memory held by %1: %2', titleOf(holder), memory.text)),
      ...(memory.title === undefined ? [] : [memory.title]),
      says.join(trans.__(', '))
    ].join('\n')
  };
}

/** What all badges share, once it is there. */
interface IShared {
  readonly guard: GuardModel;
  readonly show: (owner: string) => void;
  readonly language: ILanguage;
}

/** The badges of all notebooks of this page. */
export class Badges {
  /** Whether a person wants them. */
  set wanted(wanted: boolean) {
    this._wanted = wanted;
    this.follow();
  }

  /** From now on they have something to say. */
  begin(guard: GuardModel, show: (owner: string) => void, language: ILanguage): void {
    this.shared = { guard, show, language };
    guard.changed.connect(() => {
      this.follow();
    });
    this.follow();
  }

  /** A badge for the toolbar of `notebook`. */
  make(notebook: DocumentWidget): GuardBadge {
    const badge = new GuardBadge(owner => this.shared?.show(owner));
    const follow = (): void => {
      this.draw(badge, notebook);
    };
    this.badges.set(badge, notebook);
    notebook.context.sessionContext.kernelChanged.connect(follow);
    badge.disposed.connect(() => {
      notebook.context.sessionContext.kernelChanged.disconnect(follow);
      this.badges.delete(badge);
      this.glance();
    });
    follow();
    return badge;
  }

  private follow(): void {
    for (const [badge, notebook] of this.badges) {
      this.draw(badge, notebook);
    }
    this.glance();
  }

  private draw(badge: GuardBadge, notebook: DocumentWidget): void {
    if (this.shared !== null && this._wanted) {
      const { guard, language } = this.shared;
      badge.say(badgeOf(ownerOf(notebook), guard.report, guard.now(), language));
    } else {
      badge.say(null);
    }
  }

  /** A notebook with a kernel may hold something soon. */
  private glance(): void {
    const guard = this.shared?.guard;
    const waits = this._wanted && [...this.badges.values()].some(notebook => ownerOf(notebook) !== null);
    guard?.glance('badges', waits && (guard.report?.devices.length ?? 0) > 0);
  }

  private readonly badges = new Map<GuardBadge, DocumentWidget>();
  private shared: IShared | null = null;
  private _wanted = true;
}

/** In a notebook's toolbar: what its kernel holds on GPUs. Not there while it holds nothing. */
export class GuardBadge extends ReactWidget {
  constructor(private readonly reveal: (owner: string) => void) {
    super();
    this.addClass('jp-GpuGuard-Toolbar');
    this.node.dataset.testid = 'gpu-guard-badge';
    this.hide();
  }

  /** Draws only what has changed: there may be many notebooks. */
  say(badge: IBadge | null): void {
    if (JSONExt.deepEqual(badge as ReadonlyJSONValue, this.badge as ReadonlyJSONValue)) {
      return;
    }
    this.badge = badge;
    this.setHidden(badge === null);
    this.update();
  }

  protected render(): React.JSX.Element {
    const { badge } = this;
    if (badge === null) {
      return <></>;
    }
    return (
      <button
        type="button"
        className="jp-GpuGuard-ToolbarButton"
        data-tone={badge.tone}
        title={badge.title}
        aria-label={`${badge.text}. ${badge.title}`} // begins with what is seen, for whoever speaks to buttons
        onClick={() => {
          this.reveal(badge.owner);
        }}
      >
        {badge.text}
      </button>
    );
  }

  private badge: IBadge | null = null;
}

/** Put a badge into every notebook's toolbar, where the application has toolbars to be filled. */
export function addBadges(toolbars: IToolbarWidgetRegistry | null): Badges {
  const badges = new Badges();
  toolbars?.addFactory<DocumentWidget>('Notebook', 'gpu-guard', notebook => badges.make(notebook));
  return badges;
}
