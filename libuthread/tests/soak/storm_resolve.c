/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storm_resolve.c - names of hosts, services and users: libc opens files,
 * loads modules and keeps the resolver's state per thread. Each answer is the
 * one that came before any uthread existed.
 */
#include "soak.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <pwd.h>
#include <sys/socket.h>

#define ANSWER 512

struct question {
	const char *node, *service;
	int flags;
};

static const struct question questions[] = {
	{ "localhost", "80", 0 },
	{ "localhost", NULL, AI_CANONNAME },
	{ "127.0.0.1", "http", AI_NUMERICHOST },
	{ "::1", "443", AI_NUMERICHOST },
	{ "no address", "80", AI_NUMERICHOST },
	{ NULL, "22", AI_PASSIVE | AI_NUMERICSERV },
};

#define QUESTIONS (sizeof(questions) / sizeof(questions[0]))

static char answers[QUESTIONS][ANSWER], service[ANSWER], user[ANSWER],
	host[ANSWER];

static void add_text(char *out, const char *text)
{
	CHECK(strlen(out) + strlen(text) + 2 < ANSWER);
	strcat(out, text);
	strcat(out, ";");
}

static void ask(const struct question *q, char out[ANSWER])
{
	struct addrinfo hints = { 0 }, *list = NULL, *ai;
	char name[64], port[16];
	int err;

	hints.ai_flags = q->flags;
	hints.ai_socktype = SOCK_STREAM;
	out[0] = 0;
	err = getaddrinfo(q->node, q->service, &hints, &list);
	if (err) {
		add_text(out, gai_strerror(err));
		return;
	}
	for (ai = list; ai; ai = ai->ai_next) {
		CHECK(!getnameinfo(ai->ai_addr, ai->ai_addrlen, name,
				   sizeof(name), port, sizeof(port),
				   NI_NUMERICHOST | NI_NUMERICSERV));
		add_text(out, name);
		add_text(out, port);
		if (ai->ai_canonname)
			add_text(out, ai->ai_canonname);
	}
	freeaddrinfo(list);
}

static void ask_service(char out[ANSWER])
{
	struct servent buf, *found = NULL;
	char room[1024];

	out[0] = 0;
	if (!getservbyname_r("http", "tcp", &buf, room, sizeof(room), &found) &&
	    found)
		snprintf(out, ANSWER, "%s %d", found->s_name, found->s_port);
}

static void ask_user(char out[ANSWER])
{
	struct passwd buf, *found = NULL;
	char room[4096];

	out[0] = 0;
	if (!getpwnam_r("root", &buf, room, sizeof(room), &found) && found)
		snprintf(out, ANSWER, "%s %u %s", found->pw_name,
			 (unsigned)found->pw_uid, found->pw_dir);
}

static void ask_host(char out[ANSWER])
{
	struct hostent buf, *found = NULL;
	char room[2048], text[64];
	int err = 0;

	out[0] = 0;
	if (!gethostbyname_r("localhost", &buf, room, sizeof(room), &found,
			     &err) &&
	    found)
		for (char **a = found->h_addr_list; *a; a++)
			add_text(out, inet_ntop(found->h_addrtype, *a, text,
						sizeof(text)));
}

static void setup(void)
{
	for (size_t i = 0; i < QUESTIONS; i++) {
		ask(&questions[i], answers[i]);
		CHECK(*answers[i]);
	}
	ask_service(service);
	ask_user(user);
	ask_host(host);
}

static void same(const char *got, const char *want)
{
	if (strcmp(got, want))
		fprintf(stderr, "'%s', not '%s'\n", got, want);
	CHECK(!strcmp(got, want));
}

static void round_of_resolve(struct soak *s)
{
	char got[ANSWER];
	size_t i = soak_random(s, QUESTIONS);

	ask(&questions[i], got);
	same(got, answers[i]);
	switch (soak_random(s, 6)) {
	case 0:
		ask_service(got);
		same(got, service);
		break;
	case 1:
		ask_user(got);
		same(got, user);
		break;
	case 2:
		ask_host(got);
		same(got, host);
		break;
	default:
		break;
	}
}

STORM(resolve, .uthreads = 100, .setup = setup, .round = round_of_resolve)
