// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/kthread_perf/control: set parameters, start, stop, wait.
 *
 * One write is one transaction: words between spaces, `key=value` to set a
 * parameter, then at most one of `start` and `stop`, then perhaps `wait`. All
 * words are tried on a copy first; when one is wrong, or the start is refused,
 * the write fails and nothing has changed. probe=NAME is taken first, wherever
 * it stands, because it sets everything else back.
 *
 *   echo scenario=B1 policy=batch start > control    returns at once
 *   echo stop > control                              returns when it has ended
 *   echo start wait > control                        returns when it is done
 *
 * `wait` is what a measuring script wants: polling a file would take time from
 * the CPUs under measurement.
 *
 * Reading gives the parameters of the next run, then the state and the error
 * of the last one.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/fs.h>
#include <linux/printk.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "kperf.h"

#define WRITE_MAX 4096
#define SPACE " \t\r\n"

struct request {
	struct kperf_params params;
	bool start;
	bool stop;
	bool wait;
};

static char *kperf_control_next_word(char **text)
{
	char *word;

	do {
		word = strsep(text, SPACE);
	} while (word && !*word);
	return word;
}

static bool kperf_control_take_word(struct request *r, char *word)
{
	char *value = strchr(word, '=');

	if (!value) {
		if (!strcmp(word, "start") && !r->start && !r->stop && !r->wait)
			r->start = true;
		else if (!strcmp(word, "stop") && !r->start && !r->stop &&
			 !r->wait)
			r->stop = true;
		else if (!strcmp(word, "wait") && !r->wait)
			r->wait = true;
		else
			return false;
		return true;
	}
	/* Settings come before what they are for. */
	if (r->start || r->stop || r->wait)
		return false;
	*value++ = '\0';
	if (!strcmp(word, "probe"))
		return true; /* done already */
	return !kperf_params_set(&r->params, word, value);
}

/* probe=NAME, before everything else; at most one. */
static bool kperf_control_take_probe(struct request *r, const char *text)
{
	const char *p = text;
	bool found = false;

	while ((p = strstr(p, "probe="))) {
		size_t n = strcspn(p + 6, SPACE);
		char name[32];

		if (p != text && !strchr(SPACE, p[-1])) {
			p += 6;
			continue;
		}
		if (found || n >= sizeof(name))
			return false;
		memcpy(name, p + 6, n);
		name[n] = '\0';
		if (kperf_params_set(&r->params, "probe", name))
			return false;
		found = true;
		p += 6;
	}
	return true;
}

/* %pE, because what was written may hold anything. */
static void kperf_control_refuse(const char *word)
{
	int size = min_t(size_t, strlen(word), 40);

	pr_notice_ratelimited("control: refused \"%*pEp\"\n", size, word);
}

static int kperf_control_take_words(struct request *r, char *text)
{
	unsigned int n = 0;
	char *word;

	if (!kperf_control_take_probe(r, text)) {
		pr_notice_ratelimited("control: no such probe\n");
		return -EINVAL;
	}
	while ((word = kperf_control_next_word(&text))) {
		n++;
		if (!kperf_control_take_word(r, word)) {
			kperf_control_refuse(word);
			return -EINVAL;
		}
	}
	return n ? 0 : -EINVAL;
}

/* All under the lock: what it was tried on is what it is applied to. */
static int kperf_control_apply(struct request *r, char *text,
			       struct kperf_run **run)
{
	int error;

	mutex_lock(&kperf.lock);
	r->params = kperf.params;
	error = kperf_control_take_words(r, text);
	if (!error && r->start)
		error = kperf_run_start(&r->params, r->wait);
	if (!error)
		kperf.params = r->params;
	if (!error && (r->stop || r->wait) && kperf.run) {
		*run = kperf.run;
		kref_get(&(*run)->ref);
	}
	mutex_unlock(&kperf.lock);
	return error;
}

static ssize_t kperf_control_write(struct file *file, const char __user *from,
				   size_t size, loff_t *at)
{
	struct kperf_run *run = NULL;
	struct request *r;
	char *text;
	int error;

	if (!size || size > WRITE_MAX)
		return -EINVAL;
	text = memdup_user_nul(from, size);
	if (IS_ERR(text))
		return PTR_ERR(text);
	r = kzalloc(sizeof(*r), GFP_KERNEL);
	if (!r) {
		kfree(text);
		return -ENOMEM;
	}
	error = strlen(text) == size ? kperf_control_apply(r, text, &run) :
				       -EINVAL;
	if (!error && r->stop)
		kperf_run_stop(run);
	/* Not -ERESTARTSYS: a restarted write would start a second run. */
	if (!error && run &&
	    wait_event_interruptible(kperf.done,
				     kperf_run_state(run) != KPERF_RUNNING))
		error = -EINTR;
	kperf_run_put(run);
	kfree(r);
	kfree(text);
	return error ?: size;
}

static int kperf_control_show(struct seq_file *m, void *unused)
{
	static const char *const names[] = { "idle", "running", "done" };
	struct kperf_run *run;
	enum kperf_state state;

	mutex_lock(&kperf.lock);
	run = kperf.run;
	state = kperf_run_state(run);
	kperf_params_show(m, &kperf.params);
	seq_printf(m, "state %s\n", names[state]);
	if (state == KPERF_DONE)
		seq_printf(m, "error %d\n", run->error);
	mutex_unlock(&kperf.lock);
	return 0;
}

static int kperf_control_open(struct inode *inode, struct file *file)
{
	if ((file->f_mode & FMODE_WRITE) && !kperf_permitted())
		return -EPERM;
	return single_open(file, kperf_control_show, NULL);
}

KPERF_DOOR(control, kperf_control_open, kperf_control_write, single_release);
