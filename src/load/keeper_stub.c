#include "coffer.h"
coffer_status coffer_keeper_new(coffer_keeper **k, const char *p, const coffer_allocator *a, coffer_progress f, void *c, coffer_error *e){(void)k;(void)p;(void)a;(void)f;(void)c;(void)e;return COFFER_ERR_UNSUPPORTED;}
void coffer_keeper_state(coffer_keeper *k, uint64_t *b, uint64_t *a){(void)k;*b=*a=0;}
void coffer_keeper_free(coffer_keeper *k){(void)k;}
