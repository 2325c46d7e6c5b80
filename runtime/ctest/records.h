/* records.h: memory for the runtime's own records (stwi_map, stwi_grow) that runs out. A test that is linked with records.o
 * has its mmap, mremap and munmap go through there (build.mk, --wrap); records are told from other mappings by
 * their flags. Thread-safe.
 */
#ifndef RECORDS_H
#define RECORDS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum { NEVER, ONCE, FROM_THEN_ON, ONE_IN_THREE } fault;

/* From now on: the k-th call that asks for memory fails, counted from 1, alone or with all that follow; or every third. */
void records_fail(fault f, long k);
void records_pause(bool on);        /* meanwhile no call fails or is counted */
unsigned long records_failed(void); /* calls, since records_fail */
uint32_t records_left(void);        /* mappings that there are */
bool records_sound(void);           /* each was grown or ended by its address and its size */

#endif
