/* SPDX-License-Identifier: Apache-2.0 */
/* io_scenes.h - what goes on while calls fail (io_scenes.c, io_datagrams.c,
 * io_closes.c). */
#ifndef UTHREAD_TEST_IO_SCENES_H
#define UTHREAD_TEST_IO_SCENES_H

extern char io_path[64]; /* of a file that a scene may make */

void io_scene_in_pipe(void);
void io_scene_in_local_socket(void);
void io_scene_by_tcp(void);
void io_scene_by_local_name(void);
void io_scene_in_file(void);
void io_scene_moved(void);
void io_scene_moved_at(void);
void io_scene_polled(void);
void io_scene_helped(void);
void io_scene_children(void);

void io_scene_by_udp(void);
void io_scene_by_local_datagrams(void);

void io_scene_closed(void);

#endif
