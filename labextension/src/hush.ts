import type { Notification } from '@jupyterlab/apputils';
import type { INotifier } from './actions';

/** Passes notifications on, and leaves out the dispensable ones while a person wants quiet. */
export class Hush implements INotifier {
  constructor(
    private readonly inner: INotifier,
    /** Whether a warning can be done without. What announces a loss never can. */
    private readonly isDispensable: (options: Notification.IOptions<never> | undefined) => boolean
  ) {}

  /** Set while only what cannot be done without is shown. */
  quiet = false;

  success(message: string, options?: Notification.IOptions<never>): string {
    return this.inner.success(message, options);
  }

  /** The notification's id; empty: it was left out. */
  warning(message: string, options?: Notification.IOptions<never>): string {
    return this.quiet && this.isDispensable(options) ? '' : this.inner.warning(message, options);
  }

  error(message: string, options?: Notification.IOptions<never>): string {
    return this.inner.error(message, options);
  }

  update(change: Notification.IUpdate<never>): boolean {
    return this.inner.update(change);
  }

  dismiss(id: string): void {
    this.inner.dismiss(id);
  }
}
